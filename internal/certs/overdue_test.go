package certs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Whatever an owner sets, no renewal is due before the moment it was set: the
// longest overdue come first, and would otherwise be chosen by their owners.
func TestNothingIsOverdueBeforeItIsSet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		id := e.create("").ID
		e.issue(id)
		last := time.UnixMilli(e.record(id).NotAfter).Add(-time.Hour)
		e.now.Store(last.UnixMilli()) // its time has come long ago
		for _, body := range []string{
			`{"renew_before_days":36500}`, `{"renew_before_days":1}`, `{"auto_renew":false}`, `{"auto_renew":true}`,
			`{"renewal_window":{"weekdays":["MON"],"start_hour":1,"end_hour":2}}`, `{"renewal_window":{}}`,
		} {
			e.call(alice, fmt.Sprintf("PUT /me/certificates/%d", id), body).want(t, 200, 0)
			at := e.record(id).NextRenewalAt
			if off := strings.Contains(body, "false"); off != (at == 0) || at != 0 && at < last.UnixMilli() {
				t.Errorf("%s: due %s before", body, last.Sub(time.UnixMilli(at)))
			}
			err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return e.s.PostponeRenewal(t.Context(), tx, id, 1) })
			if at := e.record(id).NextRenewalAt; err != nil || at != 0 && at < last.UnixMilli() {
				t.Errorf("%s, postponed into the past: due %s before: %v", body, last.Sub(time.UnixMilli(at)), err)
			}
		}
	})
}
