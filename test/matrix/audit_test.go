package matrix_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Every route that changes something leaves in the log exactly what the table
// says, by whoever did it, in the log of whom it concerns; every other leaves
// nothing. A new route fails here until the table has a line for it.
func TestEveryChangeIsRecorded(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, config sqldb.Config) {
		w := apptest.NewWorld(t, config)
		db := w.Database()
		for _, o := range w.Operations {
			line := o.Line()
			want, known := auditedRoutes[line]
			if !known && o.Method == "GET" {
				want.why = "it changes nothing"
			} else if !known {
				t.Errorf("%s has no line in the table of what the audit log records", line)
				continue
			}
			if want.elsewhere != "" {
				continue
			}
			for _, a := range w.Attempts(db, o) {
				answer := want.use(a)
				name := fmt.Sprintf("%s by %s", line, a.Actor)
				if answer.Status >= 300 && (o.Method != "GET" || want.actions != "") {
					t.Errorf("%s: %d %.200s", name, answer.Status, answer.Body)
					continue
				}
				var actions []string
				told := 0
				for _, e := range w.Entries(db, "request_id = $1", answer.Header.Get("X-Request-Id")) {
					if o.Rule.TakesAdmins() && e.User != w.Admin.UserID { // and once more in the user's own log
						if e.Actor != fmt.Sprintf("administrator %d", w.Admin.UserID) {
							t.Errorf("%s: %s is by %q in the log of the user", name, e.Action, e.Actor)
						}
						told++
						continue
					}
					actions = append(actions, e.Action)
					if e.Actor != a.Actor || e.User != a.Owner().UserID {
						t.Errorf("%s: %s is by %q in the log of user %d, want user %d", name, e.Action, e.Actor, e.User, a.R.UserID)
					}
				}
				if o.Rule.TakesAdmins() && told != len(actions) {
					t.Errorf("%s: %d entries in the user's log, %d in the administrator's", name, told, len(actions))
				}
				if got := strings.Join(actions, " "); got != want.actions {
					t.Errorf("%s: recorded %q, want %q", name, got, want.actions)
				}
			}
		}
		for line := range auditedRoutes {
			if w.Find(line) == nil {
				t.Errorf("the table has a line for %s, which is not mounted", line)
			}
		}
		w.VerifyAudit()
	})
}

// What somebody is refused is in the log of whom it concerns, and a flood of it
// does not fill the log.
func TestEveryRefusalIsRecorded(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, config sqldb.Config) {
		c := apptest.Settings(t, config)
		c.Registration = "open" // or the codes of registrations are not looked at
		w := apptest.NewWorldWith(t, c, app.Options{})
		db, alice, foreign := w.Database(), w.Alice, fmt.Sprintf("/apiv1/users/%d/devices", w.Bob.UserID)
		weak, gone := alice.APIKey(apptest.Entry("devices", "*", "read")), alice.APIKey(apptest.Entry("devices", "*", "read"))
		alice.Do("DELETE", gone.Path(), nil, 204)
		late := alice.APIKey(apptest.Entry("devices", "*", "read"))
		if _, err := db.Writer().ExecContext(t.Context(), "UPDATE api_keys SET expires_at = 1 WHERE id = $1", late.ID); err != nil {
			t.Fatal(err)
		}
		login := func(email string) map[string]any {
			return map[string]any{"action": "login", "email": email, "password": "Wrong-Password-1"}
		}
		for name, tt := range map[string]struct {
			a      *apptest.Answer
			status int
			want   apptest.EntryOf
		}{
			"a key without the right":   {weak.Try("POST", "/apiv1/me/acme-accounts", apptest.AccountExample(alice)), 403, apptest.EntryOf{User: alice.UserID, Actor: fmt.Sprintf("key %d", weak.ID), Action: "access.refused", Object: "POST /apiv1/users/{user_id}/acme-accounts"}},
			"a key where none is taken": {weak.Try("GET", "/apiv1/me/apikeys", nil), 403, apptest.EntryOf{User: alice.UserID, Actor: fmt.Sprintf("key %d", weak.ID), Action: "access.refused", Object: "GET /apiv1/users/{user_id}/apikeys"}},
			"a key on a foreign path":   {weak.Try("GET", foreign, nil), 403, apptest.EntryOf{User: alice.UserID, Actor: fmt.Sprintf("key %d", weak.ID), Action: "access.refused", Object: "GET /apiv1/users/{user_id}/devices"}},
			"a session on another's":    {alice.Try("GET", foreign, nil), 403, apptest.EntryOf{User: alice.UserID, Actor: "session " + alice.Ids["session_id"], Action: "access.refused", Object: "GET /apiv1/users/{user_id}/devices"}},
			"a revoked key":             {gone.Try("GET", "/apiv1/me/devices", nil), 401, apptest.EntryOf{User: alice.UserID, Actor: fmt.Sprintf("key %d", gone.ID), Action: "apikey.refused", Object: fmt.Sprintf("apikey %d", gone.ID)}},
			"an expired key":            {late.Try("GET", "/apiv1/me/devices", nil), 401, apptest.EntryOf{User: alice.UserID, Actor: fmt.Sprintf("key %d", late.ID), Action: "apikey.refused", Object: fmt.Sprintf("apikey %d", late.ID)}},
			"a wrong password":          {w.Anonymous().Try("POST", "/auth/general", login("alice@example.org")), 401, apptest.EntryOf{User: alice.UserID, Actor: "anonymous", Action: "session.sign_in_refused", Object: fmt.Sprintf("user %d", alice.UserID)}},
			"a stranger":                {w.Anonymous().Try("POST", "/auth/general", login("nobody@example.org")), 401, apptest.EntryOf{User: 0, Actor: "anonymous", Action: "session.sign_in_refused", Object: "user 0"}},
			"a wrong code":              {w.Anonymous().Try("POST", "/auth/general", map[string]any{"action": "activate-user", "email": "alice@example.org", "verify_code": "000000"}), 400, apptest.EntryOf{User: alice.UserID, Actor: "anonymous", Action: "user.code_refused", Object: fmt.Sprintf("user %d", alice.UserID)}},
			"a wrong user code":         {alice.Try("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": "BCDF-GHJK"}), 400, apptest.EntryOf{User: alice.UserID, Actor: "session " + alice.Ids["session_id"], Action: "device.code_refused", Object: "device code"}},
			"a wrong registration code": {w.Anonymous().Try("POST", "/apiv1/device/registration", w.Find("POST /apiv1/device/registration").Good(alice)), 400, apptest.EntryOf{User: 0, Actor: "anonymous", Action: "device.code_refused", Object: "device code"}},
			"a wrong setup link":        {w.Anonymous().Try("POST", "/auth/setup", map[string]any{"token": strings.Repeat("A", 43), "email": "x@example.org", "password": apptest.Password}), 401, apptest.EntryOf{User: 0, Actor: "anonymous", Action: "user.setup_refused", Object: "setup link"}},
			"a wrong step-up":           {alice.Try("POST", "/auth/step-up", map[string]any{"password": "Wrong-Password-1"}), 401, apptest.EntryOf{User: alice.UserID, Actor: "session " + alice.Ids["session_id"], Action: "session.step_up_refused", Object: "session " + alice.Ids["session_id"]}},
		} {
			got := w.Entries(db, "request_id = $1", tt.a.Header.Get("X-Request-Id"))
			if tt.a.Status != tt.status || !slices.Equal(got, []apptest.EntryOf{tt.want}) {
				t.Errorf("%s: %d %.200s, recorded %v, want %v", name, tt.a.Status, tt.a.Body, got, tt.want)
			}
		}
		// Garbage is nobody's refusal.
		for _, c := range []*apptest.Caller{w.Anonymous(), w.Bearer("x"), w.Bearer(apptest.UnknownKey)} {
			a := c.Try("GET", "/apiv1/me/devices", nil)
			if got := w.Entries(db, "request_id = $1", a.Header.Get("X-Request-Id")); a.Status != 401 || len(got) != 0 {
				t.Errorf("garbage: %d, recorded %v", a.Status, got)
			}
		}
		for range 40 {
			weak.Do("GET", "/apiv1/me/apikeys", nil, 403)
		}
		if n := len(w.Entries(db, "actor = $1", fmt.Sprintf("key %d", weak.ID))); n != 20 {
			t.Errorf("%d refusals of one key", n)
		}
		w.VerifyAudit()

		// The owner reads them; with the address and the program it came from.
		var list []audit.Record
		alice.Do("GET", "/apiv1/me/audit-log?action=apikey.refused", nil, 200).Data(t, &list)
		slices.SortFunc(list, func(a, b audit.Record) int { return strings.Compare(a.Object, b.Object) })
		if len(list) != 2 || list[1].Detail["reason"] != "expired" || list[0].IP != "127.0.0.1" || !strings.HasPrefix(list[0].UserAgent, "Go-http-client") || list[0].Detail["reason"] != "revoked" {
			t.Errorf("%+v", list)
		}
	})
}
