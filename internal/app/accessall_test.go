package app_test

import (
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
)

// A session of another user on somebody's path is 403/5022, however the id is
// written, and whatever else is in the request (threats.md scenario 1).
func TestForeignUser(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		own, other := w.alice.ids["user_id"], w.bob.ids["user_id"]
		before := w.seen(t, w.bob)
		for _, o := range w.operations {
			if !strings.HasPrefix(o.path, ownPath) || !o.rule.TakesSession() {
				continue
			}
			users := []string{other, "0" + own, "+" + own, "%20" + own, own + "%20", own + ".0", "9223372036854775808", "me", "~", "-" + own, "4711", "%2b" + own}
			if w.postgres { // no database sees the others
				users = users[:2]
			}
			for _, user := range users {
				for _, ids := range []map[string]string{w.bob.ids, w.alice.ids} {
					path := strings.Replace(w.fill(o, ids), "/users/"+ids["user_id"], "/users/"+user, 1)
					a := w.alice.try(o.method, path, o.good(w.bob))
					if p := a.check(t, path, o); p == nil || a.status != 403 || p.Code != 5022 {
						t.Errorf("%s %s: %d %.200s, want 403/5022", o.method, path, a.status, a.body)
					}
				}
			}
		}
		if after := w.seen(t, w.bob); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
	})
}
