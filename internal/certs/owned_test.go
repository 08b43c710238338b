package certs

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// The rules are asked about every name that a caller gives; what has yet to be proved is a
// warning, what another user holds a refusal that changes nothing.
func TestNamesAreAskedFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		e.missing = []string{"www.example.com is not proved to be yours"}
		made := e.call(alice, "POST /me/certificates", `{"action":"create","domain_name":"www.example.com","sans":["api.example.com"],"acct_id":11}`)
		var answer struct{ Warnings []string }
		if err := json.Unmarshal(made.Body.Bytes(), &answer); err != nil || made.Code != http.StatusCreated || !slices.Equal(answer.Warnings, e.missing) {
			t.Errorf("%d %s: %v", made.Code, made.Body, err)
		}
		if len(e.asked) != 1 || e.asked[0].UserID != alice || !slices.Equal(e.asked[0].Names, []string{"www.example.com", "api.example.com"}) || e.asked[0].Existing {
			t.Fatalf("asked for %+v", e.asked)
		}
		e.refused = fault.Conflict("another's")
		before := e.count("SELECT COUNT(*) FROM certificates")
		e.call(alice, "POST /me/certificates", `{"domain_name":"b.example.com","acct_id":11}`).want(t, http.StatusConflict, fault.CodeConflict)
		e.call(alice, "PUT /me/certificates/1", `{"sans":["b.example.com"]}`).want(t, http.StatusConflict, fault.CodeConflict)
		if e.count("SELECT COUNT(*) FROM certificates") != before || e.count("SELECT COUNT(*) FROM certificates WHERE sans LIKE '%b.example%'") != 0 {
			t.Error("a refusal changed something")
		}
		asked := len(e.asked)
		e.call(alice, "PUT /me/certificates/1", `{"auto_renew":false,"sans":["api.example.com"]}`).want(t, http.StatusOK, 0)
		if len(e.asked) != asked {
			t.Errorf("asked again for the same names: %+v", e.asked[asked:])
		}
	})
}

// A blocked renewal says why, until the certificate is issued again.
func TestBlockedRenewal(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		e.issue(c.ID)
		err := e.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			c, err := e.s.Record(t.Context(), tx, alice, c.ID)
			if err != nil {
				return err
			}
			_, err = e.s.BlockRenewal(t.Context(), tx, &c, "It is another's.")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if shown := e.call(alice, "GET /me/certificates", ""); !strings.Contains(shown.Body.String(), `"next_renewal_at":0,"renewal_blocked":"It is another's."`) {
			t.Error(shown.Body)
		}
		e.issue(c.ID)
		if got := e.call(alice, "GET /me/certificates/1", "").record(t); got.RenewalBlocked != "" || got.NextRenewalAt == 0 {
			t.Errorf("%+v", got)
		}
	})
}
