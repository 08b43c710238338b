package issuance

import (
	"testing"

	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// A user has a CA of their own leave an order waiting, moves the account to a CA
// that is believed, and lets the first one say that the name is validated: no
// claim comes of it.
func TestClaimsOfOrdersElsewhere(t *testing.T) {
	t.Parallel()
	w, ca := hostileWorld(t, dbtest.SQLite(t))
	const believed = "https://ca.believed.test/dir"
	w.claims = []string{believed}
	n := w.quiet()
	row := n.trigger(n.addCert("www.stranger.test"), "")
	w.exec(`INSERT INTO http01_challenges (token, issuance_id, name, key_authorization, challenge_url, authorization_url)
		VALUES ('tok', $1, 'www.stranger.test', 'tok.x', '', '')`, row.ID)
	for _, tt := range []struct {
		order string
		want  int
	}{
		{ca.URL + "/order/1", 0}, {"https://ca.believed.test:8443/order/1", 0}, {"https://ca.believed.test.stranger.test/order/1", 0}, {"", 0},
		{"https://CA.believed.test:443/order/1", 1},
	} {
		stored, err := New(w.db.Reader()).issuanceByID(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		stored.OrderUrl = tt.order
		a := &attempt{s: n.Service, row: stored, account: acmeaccounts.Account{DirectoryURL: believed}}
		if err := w.db.InTx(t.Context(), func(tx *sqldb.Tx) error { return a.claimNames(t.Context(), tx) }); err != nil {
			t.Fatal(err)
		}
		if got := w.count("SELECT COUNT(*) FROM name_claims WHERE name = 'stranger.test'"); got != tt.want {
			t.Errorf("an order at %q: %d claims, want %d", tt.order, got, tt.want)
		}
	}
}
