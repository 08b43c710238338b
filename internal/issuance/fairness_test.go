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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/fault"
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
func (n *node) tenant(name string, ca *hostile.CA) (user, account int64) {
	n.w.t.Helper()
	user = n.w.addUser(name + "@example.com")
	var a struct{ ID int64 }
	n.as(user, "POST", "/acme-accounts", map[string]any{"name": name, "email": "ops@example.com", "provider": "custom", "directory_url": ca.DirectoryURL, "ca_bundle_pem": ca.CABundlePEM}).data(n.w.t, &a)
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

		attacker, account := n.tenant("attacker", ca)
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
			user, account := n.tenant(name, ca)
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

// begin makes a certificate of the tenant and begins an attempt for it.
func (n *node) begin(user, account int64, body map[string]any) Issuance {
	n.w.t.Helper()
	body["acct_id"] = account
	var c struct{ ID int64 }
	n.as(user, "POST", "/certificates", body).data(n.w.t, &c)
	var i Issuance
	n.as(user, "POST", fmt.Sprintf("/certificates/%d/issues", c.ID), map[string]any{}).data(n.w.t, &i)
	return i
}

// Seventy users have one order each at an authority that hangs, and one of them
// fifty more. Another user's certificates come while all of them wait, which
// takes places that are kept for others.
func TestSeventyAtAnAuthorityThatHangs(t *testing.T) {
	t.Parallel()
	w, _ := hostileWorld(t, dbtest.SQLite(t))
	w.options.RequestTimeout = time.Hour
	hanging, prompt := hostile.Start(t), hostile.Start(t)
	hanging.Always(hostile.NewOrder, hostile.Hang())
	n := w.start()
	victim, his := n.tenant("victim", prompt)
	median := func(round string) time.Duration {
		var took []time.Duration
		for k := range 5 {
			began := time.Now()
			i := n.begin(victim, his, map[string]any{"domain_name": fmt.Sprintf("%s-%d.example.test", round, k)})
			eventually(t, func() bool {
				return w.count("SELECT COUNT(*) FROM issuances WHERE id = $1 AND status = 'SUCCESS'", i.ID) == 1
			}, func() string { return round + ": the attempt does not end" })
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	before := median("before")
	for k := range 70 {
		user, account := n.tenant(fmt.Sprintf("tenant%d", k), hanging)
		many := 1
		if k == 0 {
			many = 51
		}
		for i := range many {
			n.begin(user, account, map[string]any{"domain_name": fmt.Sprintf("t%d-%d.example.test", k, i)})
		}
	}
	eventually(t, func() bool { return hanging.Requests(hostile.NewOrder) >= places/4 }, func() string {
		return fmt.Sprintf("%d requests hang", hanging.Requests(hostile.NewOrder))
	})
	t.Logf("median before %s, beside the flood %s", before, median("beside"))
}

// Of 24 attempts for the same names that begin at once on two nodes, three are
// let through.
func TestLimitOnOrdersOnTwoNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _ := hostileWorld(t, db)
		nodes := []*node{w.quiet(), w.quiet()}
		ids := make([]int64, 24)
		for i := range ids {
			ids[i] = nodes[0].addCert("same.example.test", "other.example.test")
		}
		var group sync.WaitGroup
		var begun, refused atomic.Int64
		for i, id := range ids {
			group.Go(func() {
				switch _, _, err := nodes[i%2].start(t.Context(), w.user, id, order{trigger: TriggerManual}); {
				case err == nil:
					begun.Add(1)
				case fault.Is(err, fault.CodeRateLimited):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if begun.Load() != maxOrders || refused.Load() != int64(len(ids)-maxOrders) {
			t.Errorf("%d begun, %d refused; want %d and the rest", begun.Load(), refused.Load(), maxOrders)
		}
	})
}

// The last attempts of a certificate are kept, with their logs, and no more.
func TestAttemptsAreForgotten(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _ := hostileWorld(t, db)
		n := w.quiet()
		certID := n.addCert("a.example.test")
		for range keptAttempts + 5 {
			i := n.trigger(certID, `{"force":true}`)
			if err := n.Cancel(t.Context(), w.user, certID, i.ID); err != nil {
				t.Fatal(err)
			}
		}
		if kept := w.count("SELECT COUNT(*) FROM issuances"); kept != keptAttempts {
			t.Errorf("%d attempts are kept, want %d", kept, keptAttempts)
		}
		if lines := w.count("SELECT COUNT(DISTINCT issuance_id) FROM issuance_log"); lines != keptAttempts {
			t.Errorf("the logs of %d attempts are kept, want %d", lines, keptAttempts)
		}
	})
}

// A limit of this server puts an attempt off and does not end it.
func TestOwnLimitsPutOff(t *testing.T) {
	t.Parallel()
	w, _ := hostileWorld(t, dbtest.SQLite(t))
	n := w.quiet()
	i := n.trigger(n.addCert("a.example.test"), "")
	row, err := New(w.db.Reader()).issuanceByID(t.Context(), i.ID)
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt{s: n.Service, row: row, begin: time.Now()}
	for _, limit := range []error{fault.RateLimited(time.Hour, "Too many."), &acme.Later{After: time.Hour}} {
		if wait, err := a.overcome(t.Context(), limit); err != nil || wait != time.Hour || !open(a.row.Status) {
			t.Errorf("%v: %s %v %s", limit, wait, err, a.row.Status)
		}
	}
}
