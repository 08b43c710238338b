package app_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// staying are the tables that go on naming a user who was deleted, and why.
var staying = map[string]string{
	"audit_log":        "the log outlives its user",
	"audit_heads":      "the log outlives its user",
	"mails":            "what was sent is kept for some days, without its text",
	"revoked_api_keys": "the use of a key that was revoked is recorded until it would have expired",
}

// Whom an administrator deletes is disabled at once and gone after 7 days with
// everything that names the user, in all tables that there are; until then the
// deletion can be cancelled.
func TestDeletedUserLeavesNothing(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, config sqldb.Config) {
		clock := &apptest.Skew{}
		w := apptest.NewWorldWith(t, apptest.Settings(t, config), app.Options{Now: clock.Now})
		db := w.Database()
		schema := sqliteSchema
		if w.Postgres {
			schema = postgresSchema
		}
		path := "/apiv1/admin/users/" + w.Alice.Ids["user_id"]
		w.Admin.Do("DELETE", path, nil, 204)
		w.Alice.Do("GET", "/auth/profile", nil, 401)
		w.Admin.Do("PATCH", path, map[string]any{"status": "ACTIVE"}, 409)
		w.Admin.Do("POST", path+"/cancel-deletion", nil, 204)
		w.Admin.Do("PATCH", path, map[string]any{"status": "ACTIVE"}, 200)
		w.Admin.Do("DELETE", path+"?reason=left", nil, 204)
		w.Admin.Do("DELETE", "/apiv1/admin/users/"+strconv.FormatInt(w.Admin.UserID, 10), nil, 409)
		before := w.Seen(t, w.Bob)
		naming := func() (tables []string) {
			t.Helper()
			for _, line := range schema(t, db) {
				table, rest, _ := strings.Cut(line, ".")
				if !strings.HasPrefix(rest, "user_id int") {
					continue
				}
				var n int
				if err := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table+" WHERE user_id = $1", w.Alice.UserID).Scan(&n); err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					tables = append(tables, table)
				}
			}
			return slices.Compact(tables)
		}
		full := naming()
		if err := w.App.SweepUsers(t.Context()); err != nil || len(naming()) != len(full) {
			t.Fatalf("deleted before its time: %v, %v", naming(), err)
		}
		clock.By.Add(int64(7*24*time.Hour + time.Minute))
		if err := w.App.SweepUsers(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, table := range naming() {
			if staying[table] == "" {
				t.Errorf("%s still names the user", table)
			}
		}
		if len(full) < 8 {
			t.Errorf("the user was named in few tables: %v", full)
		}
		clock.By.Store(0)
		w.Admin.Do("GET", path, nil, 404)
		if after := w.Seen(t, w.Bob); after != before {
			t.Errorf("something of another user changed:\nbefore %s\nafter  %s", before, after)
		}
		w.VerifyAudit()
	})
}

// The renewals of who is disabled go on for 30 days, then stop; enabled again,
// they go on as planned.
func TestRenewalsOfDisabledUsers(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, config sqldb.Config) {
		clock := &apptest.Skew{}
		w := apptest.NewWorldWith(t, apptest.Settings(t, config), app.Options{Now: clock.Now})
		db := w.Database()
		id := w.Alice.Imported()
		planned := clock.Now().Add(90 * 24 * time.Hour).UnixMilli()
		if _, err := db.Writer().ExecContext(t.Context(), "UPDATE certificates SET next_renewal_at = $1 WHERE id = $2", planned, id); err != nil {
			t.Fatal(err)
		}
		next := func() (at int64) {
			t.Helper()
			if err := w.App.SweepUsers(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := db.Reader().QueryRowContext(t.Context(), "SELECT next_renewal_at FROM certificates WHERE id = $1", id).Scan(&at); err != nil {
				t.Fatal(err)
			}
			return at
		}
		path := "/apiv1/admin/users/" + w.Alice.Ids["user_id"]
		w.Admin.Do("PATCH", path, map[string]any{"status": "DISABLED"}, 200)
		a := w.Anonymous().Try("POST", "/auth/refresh", map[string]any{"refresh_token": w.Alice.Device.Refresh})
		if a.Status != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("a device's refresh: %d %s", a.Status, a.Body)
		}
		clock.By.Add(int64(29 * 24 * time.Hour))
		if at := next(); at != planned {
			t.Errorf("after 29 days: %d, want %d", at, planned)
		}
		clock.By.Add(int64(2 * 24 * time.Hour))
		if at := next(); at >= 0 {
			t.Errorf("after 31 days: %d", at)
		}
		if n := w.Entries(db, "action = $1", "user.hold_renewals"); len(n) != 1 {
			t.Errorf("recorded %d times", len(n))
		}
		users, done, err := app.Users(t.Context(), w.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		if err := users.EnableUser(t.Context(), w.Alice.UserID); err != nil {
			t.Fatal(err)
		}
		if at := next(); at != planned {
			t.Errorf("enabled again: %d, want %d", at, planned)
		}
	})
}
