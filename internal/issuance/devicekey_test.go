package issuance

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"testing"

	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// owned makes a device of which the test holds the secret key.
func (w *world) owned(certs ...int64) (int64, *ecdh.PrivateKey) {
	w.t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	id := w.addDevice(certs...)
	if _, err := w.db.Writer().ExecContext(w.t.Context(), "UPDATE devices SET public_key = $1 WHERE id = $2", key.PublicKey().Bytes(), id); err != nil {
		w.t.Fatal(err)
	}
	return id, key
}

// opens tells whether the device has the key of the certificate's leaf.
func (n *node) opens(certID, device int64, key *ecdh.PrivateKey) bool {
	n.w.t.Helper()
	var k seal.EncryptedKey
	var box []byte
	err := n.w.db.Reader().QueryRowContext(n.w.t.Context(), `SELECT m.key_ciphertext, m.key_nonce, m.key_tag, w.sealed_box
		FROM certificate_materials m JOIN certificate_wraps w ON w.cert_id = m.cert_id AND w.key_version = m.key_version
		WHERE m.cert_id = $1 AND w.device_id = $2`, certID, device).Scan(&k.Ciphertext, &k.Nonce, &k.Tag, &box)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return false
	}
	if err != nil {
		n.w.t.Fatal(err)
	}
	dataKey, err := seal.OpenSealedBox([32]byte(key.PublicKey().Bytes()), [32]byte(key.Bytes()), box)
	if err != nil {
		n.w.t.Fatal(err)
	}
	der, err := seal.DecryptPrivateKey(dataKey, k)
	if err != nil {
		n.w.t.Fatal(err)
	}
	private, err := certs.ParseKey(der)
	if err != nil {
		n.w.t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(n.cert(certID).Cert))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return certs.SameKey(private.Public(), leaf.PublicKey)
}

// masterSealed counts, in the files of SQLite, what the server's master key
// opens of the private keys of attempts and certificates.
func (w *world) masterSealed() (found int) {
	w.t.Helper()
	var path string
	if err := w.db.Reader().QueryRowContext(w.t.Context(), "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		w.t.Fatal(err)
	}
	id, err := hex.DecodeString(w.keys.ID())
	if err != nil {
		w.t.Fatal(err)
	}
	head := append([]byte{1}, id...) // of every sealed value
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name) //nolint:gosec // the test's own
		if err != nil {
			w.t.Fatal(err)
		}
		for at := bytes.Index(data, head); at >= 0; {
			blob := data[at:min(len(data), at+seal.Overhead)]
			for row := int64(1); row <= 20; row++ {
				for _, place := range []seal.Place{
					{Table: "issuances", Row: row, Column: "private_key"}, {Table: "certificate_materials", Row: row, Column: "data_key"},
				} {
					if _, err := w.keys.Rewrap(place, blob); err == nil {
						found++
					}
				}
			}
			next := bytes.Index(data[at+1:], head)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	return found
}

// Under DEVICE_REQUIRED no private key is ever stored in a form that the server
// opens, at no step of the attempt, over a crash between any two steps, in no
// file of the database, and not with a policy that was set meanwhile.
func TestServerNeverHoldsADeviceKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _ := hostileWorld(t, db)
		var certID int64
		during := map[string]func(){}
		steps := 0
		w.change = func(s *Service) {
			s.reached = func(_ context.Context, step string) {
				steps++
				if do := during[step]; do != nil {
					delete(during, step)
					do()
				}
				if got := w.count("SELECT COUNT(*) FROM issuances WHERE private_key IS NOT NULL AND cert_id = $1", certID); got != 0 {
					t.Errorf("at %s the server holds the key", step)
				}
			}
		}
		n := w.quiet()
		certID = n.addCert("a.example.test")
		w.set(certID, "policy = 'DEVICE_REQUIRED'")
		early, earlyKey := w.owned(certID)
		late, lateKey := w.owned()
		wiped, _ := w.owned(certID)
		during["validate"] = func() {
			w.assign(late, certID)
			n.wipe(wiped)
		}
		if got := n.finished(n.trigger(certID, "")); got.Status != StatusSuccess {
			t.Fatalf("%+v", got)
		}
		if !n.opens(certID, early, earlyKey) || n.opens(certID, late, lateKey) || w.wrapped(certID) != 1 || steps < 5 {
			t.Errorf("%d devices have the key after %d steps", w.wrapped(certID), steps)
		}
		if w.count("SELECT COUNT(*) FROM certificate_reissues WHERE cert_id = $1 AND due_at > 0", certID) != 1 {
			t.Error("no re-issue is planned for the device that came later")
		}
		if w.count("SELECT COUNT(*) FROM issuances WHERE private_key IS NOT NULL OR device_key IS NOT NULL") != 0 {
			t.Error("an attempt that is over has a key")
		}
		if db.Dialect() == sqldb.SQLite {
			if got := w.masterSealed(); got != 0 {
				t.Errorf("%d copies of the key in the database's files open with the master key", got)
			}
		}
		if got := n.finished(n.trigger(certID, "")); got.Status != StatusSuccess || !n.opens(certID, late, lateKey) || w.wrapped(certID) != 3 {
			t.Errorf("after the re-issue: %+v, %d devices have the key", got, w.wrapped(certID))
		}

		hybrid := n.addCert("b.example.test")
		device, key := w.owned(hybrid)
		during["finalize"] = func() { w.set(hybrid, "policy = 'DEVICE_REQUIRED'") }
		if got := n.finished(n.trigger(hybrid, "")); got.Status != StatusSuccess || !n.opens(hybrid, device, key) || len(during) != 0 {
			t.Fatalf("made stricter on the way: %+v", got)
		}
		if w.count("SELECT COUNT(*) FROM certificate_materials WHERE cert_id = $1 AND data_key IS NOT NULL", hybrid) != 0 {
			t.Error("the server can open the key")
		}
		w.set(hybrid, "policy = 'HYBRID'")
		during["finalize"] = func() { w.set(hybrid, "policy = 'DEVICE_REQUIRED'") }
		during["download"] = func() { w.set(hybrid, "policy = 'HYBRID'") }
		got := n.finished(n.trigger(hybrid, ""))
		if c := n.cert(hybrid); got.Status != StatusSuccess || !n.opens(hybrid, device, key) || c.Policy != certs.PolicyDeviceRequired || c.KeyPolicy() != certs.PolicyHybrid {
			t.Errorf("made laxer when it was too late: %+v, %s, then %s", got, c.Policy, c.KeyPolicy())
		}
		if got := n.finished(n.trigger(hybrid, "")); got.Status != StatusSuccess || n.cert(hybrid).Policy != certs.PolicyHybrid ||
			w.count("SELECT COUNT(*) FROM certificate_materials WHERE cert_id = $1 AND data_key IS NOT NULL", hybrid) != 1 {
			t.Errorf("the next key: %+v", got)
		}
		if db.Dialect() == sqldb.SQLite && w.masterSealed() == 0 {
			t.Error("the search finds nothing at all")
		}
	})
}
