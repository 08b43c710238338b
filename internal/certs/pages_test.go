package certs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// A page of certificates with long chains ends at 2 MiB and says where to go on;
// going on gives each record once, in every list and for a limited key too.
func TestPagesEndEarly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		var ids []int64
		for range 25 {
			id := e.create("").ID
			ids = append([]int64{id}, ids...) // newest first
			e.exec(`INSERT INTO certificate_assignments (device_id, cert_id, created_at) VALUES ($1, $2, 0)`, device1, id)
			e.grant("ak_named", "certificates", id, "read")
		}
		e.exec(`UPDATE certificate_materials SET chain_pem = $1`, strings.Repeat("a", 200_000))
		for list, who := range map[string]any{
			"/me/certificates": alice, "/me/acme-accounts/11/certificates": alice, fmt.Sprintf("/me/devices/%d/certificates", device1): alice,
			"/users/1/certificates": "ak_named",
		} {
			var seen []int64
			for offset, more := int64(0), true; more; {
				w := e.call(who, fmt.Sprintf("GET %s?detail=most&limit=1000&offset=%d", list, offset), "").want(t, http.StatusOK, 0)
				var page []Certificate
				if err := json.Unmarshal(w.body.Data, &page); err != nil || len(page) == 0 || w.Body.Len() > 3<<20 || w.body.Meta.Total != 25 {
					t.Fatalf("%s: %d bytes, %d records, meta %+v, %v", list, w.Body.Len(), len(page), w.body.Meta, err)
				}
				for _, c := range page {
					seen = append(seen, c.ID)
				}
				if more = w.body.Meta.NextOffset != nil; more {
					offset = *w.body.Meta.NextOffset
				}
			}
			if !slices.Equal(seen, ids) {
				t.Errorf("%s: %v, want %v", list, seen, ids)
			}
		}
	})
}
