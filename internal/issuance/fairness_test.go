package issuance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strconv"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// as calls as another user on /apiv1/me.
func (n *node) as(user int64, method, path string, body map[string]any) answer {
	n.w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return n.call(strconv.FormatInt(user, 10), method, "/apiv1/me"+path, string(text))
}

// tenant makes a further user with an account at the world's CA.
func (n *node) tenant(name string, directoryURL string) (user, account int64) {
	n.w.t.Helper()
	user = n.w.addUser(name + "@example.com")
	var a struct{ ID int64 }
	n.as(user, "POST", "/acme-accounts", map[string]any{"name": name, "email": "ops@example.com", "provider": "custom", "directory_url": directoryURL}).data(n.w.t, &a)
	return user, a.ID
}

// selfSigned is a certificate with its key, in PEM.
func selfSigned(t testing.TB, name string, from, to time.Time) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// One user brings twenty old wildcards, which no authority can be asked for
// here, and makes all of them due again between any two sweeps. The renewal of
// another user begins with the first sweep after it is due.
func TestNobodyHoldsUpTheRenewalsOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		victim := n.addCert("a.example.test")
		if err := n.run(t.Context(), n.trigger(victim, "").ID); err != nil {
			t.Fatal(err)
		}
		due := time.UnixMilli(n.cert(victim).NextRenewalAt)

		attacker, account := n.tenant("attacker", ca.DirectoryURL)
		certificate, key := selfSigned(t, "*.old.test", time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), due.AddDate(10, 0, 0))
		var wildcards []int64
		for range 2 * renewEach {
			var c struct{ ID int64 }
			n.as(attacker, "POST", "/certificates", map[string]any{
				"action": "import", "cert_pem": certificate, "private_key_pem": key, "acct_id": account, "renew_before_days": 36500,
			}).data(t, &c)
			wildcards = append(wildcards, c.ID)
		}
		earlier := w.count("SELECT COUNT(*) FROM certificates WHERE user_id = $1 AND next_renewal_at < $2", attacker, w.time().Add(-time.Minute).UnixMilli())
		if earlier != 0 {
			t.Errorf("%d imports are overdue before they were made", earlier)
		}
		for sweep := range 5 {
			w.at(due.Add(time.Duration(sweep) * sweepEvery))
			for i, id := range wildcards {
				n.as(attacker, "PUT", fmt.Sprintf("/certificates/%d", id), map[string]any{"renew_before_days": 36000 + sweep*50 + i}).data(t, new(struct{}))
			}
			got := n.sweepAll()
			if sweep == 0 && (len(got) != 1 || got[0].CertRecordID != victim || got[0].Status != StatusSuccess) {
				t.Errorf("the first sweep: %+v, want the victim's renewal", got)
			}
		}
		// What is refused is put off, and costs no attempt.
		if attempts := w.count("SELECT COUNT(*) FROM issuances WHERE user_id = $1", attacker); attempts != 0 {
			t.Errorf("%d attempts for wildcards", attempts)
		}
		w.at(due.Add(10 * sweepEvery))
		for range 3 {
			n.sweepAll()
		}
		if still := w.count("SELECT COUNT(*) FROM certificates WHERE user_id = $1 AND next_renewal_at <= $2", attacker, w.time().UnixMilli()); still != 0 {
			t.Errorf("%d wildcards are still due", still)
		}
	})
}

// Three users with many, some and one due certificate: each sweep serves them
// by turns, and goes on where the last one ended.
func TestRenewalsTakeTurns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		owner := map[int64]string{}
		for name, many := range map[string]int{"many": 40, "some": 8, "one": 1} {
			user, account := n.tenant(name, ca.DirectoryURL)
			for i := range many {
				var c struct{ ID int64 }
				n.as(user, "POST", "/certificates", map[string]any{"domain_name": fmt.Sprintf("%s-%d.example.test", name, i), "acct_id": account}).data(t, &c)
				owner[c.ID] = name
			}
		}
		begun := w.time().Add(-30 * 24 * time.Hour).UnixMilli()
		if _, err := db.Writer().ExecContext(t.Context(), "UPDATE certificates SET next_renewal_at = id, not_before = $1, not_after = $2", begun, w.time().Add(24*time.Hour).UnixMilli()); err != nil {
			t.Fatal(err)
		}
		for sweep, want := range []map[string]int{
			{"many": 5, "some": 4, "one": 1},
			{"many": 6, "some": 4},
			{"many": 10},
		} {
			if err := n.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows, err := db.Reader().QueryContext(t.Context(), "SELECT cert_id FROM issuances WHERE status = 'PENDING'")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			got := map[string]int{}
			for rows.Next() {
				var id int64
				if err := rows.Scan(&id); err != nil {
					t.Fatal(err)
				}
				got[owner[id]]++
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			for name, count := range want {
				if off := got[name] - count; off < -1 || off > 1 {
					t.Errorf("sweep %d: %v, want about %v", sweep, got, want)
				}
			}
			if _, err := db.Writer().ExecContext(t.Context(), "UPDATE issuances SET status = 'CANCELLED'"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
