package issuance

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// addDevice makes a device of the world's user that the certificates are
// assigned to.
func (w *world) addDevice(certs ...int64) int64 {
	w.t.Helper()
	var id int64
	key := newPublicKey(w.t)
	err := w.db.Writer().QueryRowContext(w.t.Context(), `INSERT INTO devices (user_id, public_id, public_key, status, session_no, name, platform, model,
		app_version, agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
		VALUES ($1, $2, $3, 'ACTIVE', 1, '', '', '', '', '', '', '', '', 0, 0, 0) RETURNING id`, w.user, hex.EncodeToString(key[:8]), key).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, cert := range certs {
		w.assign(id, cert)
	}
	return id
}

func (w *world) assign(device, cert int64) {
	w.t.Helper()
	_, err := w.db.Writer().ExecContext(w.t.Context(), "INSERT INTO certificate_assignments (device_id, cert_id, created_at) VALUES ($1, $2, 0)", device, cert)
	if err != nil {
		w.t.Fatal(err)
	}
}

func newPublicKey(t testing.TB) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key.PublicKey().Bytes()
}

// wipe is a registration of the device with another key.
func (n *node) wipe(device int64) {
	n.w.t.Helper()
	key := newPublicKey(n.w.t)
	err := n.w.db.InTx(n.w.t.Context(), func(tx *sqldb.Tx) error {
		ctx := context.Background()
		if _, err := tx.ExecContext(ctx, "UPDATE devices SET public_key = $1 WHERE id = $2", key, device); err != nil {
			return err
		}
		return n.certs.DeviceKeyChanged(ctx, tx, devices.Device{ID: device, UserID: n.w.user, PublicKey: [32]byte(key)})
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
}

// wrapped counts the devices that can open the present key.
func (w *world) wrapped(cert int64) int {
	return w.count(`SELECT COUNT(*) FROM certificate_wraps w JOIN certificate_materials m ON m.cert_id = w.cert_id AND m.key_version = w.key_version
		WHERE w.cert_id = $1`, cert)
}

// An agent that was wiped gets a key that only devices can open by a re-issue
// that starts by itself: one for all devices of ten minutes, one a day, over a
// failure and a restart, and none that nobody needs.
func TestReissueForDeviceWithoutTheKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		certID := n.addCert("a.example.test")
		w.set(certID, "policy = 'DEVICE_REQUIRED'")
		one, two := w.addDevice(certID), w.addDevice(certID)
		n.finished(n.trigger(certID, ""))
		if got := w.wrapped(certID); got != 2 {
			t.Fatalf("%d devices have the key", got)
		}
		due := n.cert(certID).NextRenewalAt
		start := w.time().Truncate(time.Millisecond)
		later := func(d time.Duration) []Issuance {
			w.at(start.Add(d))
			return n.sweepAll()
		}

		w.at(start)
		n.wipe(one)
		if got := later(5 * time.Minute); len(got) != 0 {
			t.Fatalf("at once: %+v", got)
		}
		n.wipe(two)
		n = w.quiet() // the process was killed
		if got := later(10*time.Minute - 1); len(got) != 0 {
			t.Fatalf("early: %+v", got)
		}
		ca.Always(hostile.NewOrder, hostile.Problem(403, "rejectedIdentifier", "not today"))
		got := later(10 * time.Minute)
		if len(got) != 1 || got[0].Status != StatusFailed || got[0].Trigger != TriggerRenewal {
			t.Fatalf("after ten minutes: %+v", got)
		}
		if now := n.cert(certID).NextRenewalAt; now != due {
			t.Errorf("its failure moves the renewal from %d to %d", due, now)
		}
		ca.Always(hostile.NewOrder, nil)
		n.wipe(one) // others do not bring it forward
		if got := later(24 * time.Hour); len(got) != 0 {
			t.Fatalf("twice a day: %+v", got)
		}
		got = later(24*time.Hour + 10*time.Minute)
		if len(got) != 1 || got[0].Status != StatusSuccess {
			t.Fatalf("the next day: %+v", got)
		}
		if got := w.wrapped(certID); got != 2 {
			t.Fatalf("%d devices have the new key", got)
		}
		if got := later(72 * time.Hour); len(got) != 0 || w.count("SELECT COUNT(*) FROM certificate_reissues") != 0 {
			t.Fatalf("for nothing: %+v", got)
		}
	})
}

// set changes columns of a certificate.
func (w *world) set(certID int64, columns string) {
	w.t.Helper()
	if _, err := w.db.Writer().ExecContext(w.t.Context(), "UPDATE certificates SET "+columns+" WHERE id = $1", certID); err != nil {
		w.t.Fatal(err)
	}
}

// No re-issue starts where its owner, or custody, does not ask for one.
func TestReissueOnlyWhereItHelps(t *testing.T) {
	t.Parallel()
	w, _ := hostileWorld(t, dbtest.SQLite(t))
	n := w.quiet()
	start := w.time()
	for i, columns := range []string{
		"policy = 'DEVICE_REQUIRED', auto_renew = FALSE",
		"policy = 'DEVICE_REQUIRED', revoked_at = 5",
		"policy = 'DEVICE_REQUIRED', acct_id = NULL",
		"policy = 'HYBRID'",
		"policy = 'MASTER_ONLY'",
	} {
		certID := n.addCert(fmt.Sprintf("n%d.example.test", i))
		policy, _, _ := strings.Cut(columns, ",")
		w.set(certID, policy)
		device := w.addDevice(certID)
		n.finished(n.trigger(certID, ""))
		w.set(certID, columns)
		n.wipe(device)
		w.at(start.Add(time.Hour))
		if got := n.sweepAll(); len(got) != 0 {
			t.Errorf("%s: %+v", columns, got)
		}
		w.at(start)
	}
}
