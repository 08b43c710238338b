package issuance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Under the policy proved a certificate is written down with a warning, and
// ordered as soon as its record stands, by a start alone.
func TestProvedBeforeOrdered(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca, front := pebble(t, db, acmetest.Options{})
		w.proved, w.records = true, records{}
		n := w.start()
		front.use(n)
		who := n.neighbour(ca.DirectoryURL, ca.CABundlePEM)
		made := who.create("www.example.com")
		if made.status != http.StatusCreated || !strings.Contains(made.body, "_certharbor.www.example.com") {
			t.Fatalf("%d %s", made.status, made.body)
		}
		var cert struct{ ID int64 }
		made.data(t, &cert)
		refused := who.do("POST", fmt.Sprintf("/certificates/%d/issues", cert.ID), "")
		refused.refused(t, names.KeyUnproved)
		_, value, _ := strings.Cut(refused.body, `"value":"`)
		value, _, _ = strings.Cut(value, `"`)
		w.records["_certharbor.www.example.com "+value] = true
		if i := who.order(cert.ID); i.Status != StatusSuccess {
			t.Errorf("%+v", i)
		}
		other := n.neighbour(ca.DirectoryURL, ca.CABundlePEM)
		other.create("www.example.com").refused(t, names.KeyTaken)
	})
}

// When a name changes hands, what is published for others there is withdrawn.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		victim, attacker := n.neighbour(ca.DirectoryURL, ca.CABundlePEM), n.neighbour(ca.DirectoryURL, ca.CABundlePEM)
		for token, who := range map[string]*neighbour{"hers": victim, "his": attacker} {
			certID := who.cert("www.victim.com")
			var i Issuance
			who.do("POST", fmt.Sprintf("/certificates/%d/issues", certID), "").data(t, &i)
			w.exec(`INSERT INTO http01_challenges (token, issuance_id, name, key_authorization, challenge_url, authorization_url, domain)
				VALUES ($1, $2, 'www.victim.com', 'x', '', '', 'victim.com')`, token, i.ID)
		}
		w.exec(`INSERT INTO name_claims (user_id, name, domain, state, proof, taken_from, held_at, lost_at, checked_at, next_check_at,
			absent_since, lapsed_at, freed_at, created_at) VALUES ($1, 'victim.com', 'victim.com', 'HELD', 'txt', 0, 1, 0, 0, 0, 0, 0, 0, 1)`, victim.id)
		if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return n.Withdraw(t.Context(), tx, "victim.com") }); err != nil {
			t.Fatal(err)
		}
		if w.count("SELECT COUNT(*) FROM http01_challenges WHERE token = 'hers'") != 1 || w.count("SELECT COUNT(*) FROM http01_challenges") != 1 {
			t.Error("the holder's answer alone must stay")
		}
	})
}
