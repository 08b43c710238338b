package matrix_test

import (
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// A session of another user on somebody's path is 403/5022, however the id is
// written, and whatever else is in the request (threats.md scenario 1).
func TestForeignUser(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		own, other := w.Alice.Ids["user_id"], w.Bob.Ids["user_id"]
		before := w.Seen(t, w.Bob)
		for _, o := range w.Operations {
			if !strings.HasPrefix(o.Path, apptest.OwnPath) || !o.Rule.TakesSession() {
				continue
			}
			users := []string{other, "0" + own, "+" + own, "%20" + own, own + "%20", own + ".0", "9223372036854775808", "me", "~", "-" + own, "4711", "%2b" + own}
			if w.Postgres { // no database sees the others
				users = users[:2]
			}
			for _, user := range users {
				for _, ids := range []map[string]string{w.Bob.Ids, w.Alice.Ids} {
					path := strings.Replace(w.Fill(o, ids), "/users/"+ids["user_id"], "/users/"+user, 1)
					a := w.Alice.Try(o.Method, path, o.Good(w.Bob))
					if p := a.Check(t, path, o); p == nil || a.Status != 403 || p.Code != 5022 {
						t.Errorf("%s %s: %d %.200s, want 403/5022", o.Method, path, a.Status, a.Body)
					}
				}
			}
		}
		if after := w.Seen(t, w.Bob); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
	})
}
