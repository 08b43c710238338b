package app_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// attempt is one successful use of a route with one credential.
type attempt struct {
	w     *world
	o     *operation
	r     *resident
	c     *caller // the credential
	actor string  // what it is called in the audit log
	ids   map[string]string
}

// call makes the request with the ids of the attempt.
func (a *attempt) call(body any) *answer {
	a.w.t.Helper()
	return a.c.try(a.o.method, a.w.fill(a.o, a.ids), body)
}

// entryOf is a row of the audit log that a test asks for.
type entryOf struct {
	user                  int64
	actor, action, object string
}

// entries are what the audit log has of the request.
func (p *program) entries(db *sqldb.DB, where string, args ...any) (list []entryOf) {
	p.t.Helper()
	rows, err := db.Reader().QueryContext(context.WithoutCancel(p.t.Context()), "SELECT user_id, actor, action, object FROM audit_log WHERE "+where+" ORDER BY at, seq", args...)
	if err != nil {
		p.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entryOf
		if err := rows.Scan(&e.user, &e.actor, &e.action, &e.object); err != nil {
			p.t.Fatal(err)
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		p.t.Fatal(err)
	}
	return list
}

// verifyAudit verifies the program's log as the command does.
func (p *program) verifyAudit() *audit.Verified {
	p.t.Helper()
	v, err := app.VerifyAudit(p.t.Context(), p.config, audit.Verification{})
	if err != nil {
		p.t.Error(err)
	}
	return v
}

// Every route that changes something leaves in the log exactly what the table
// says, by whoever did it, in the log of whom it concerns; every other leaves
// nothing. A new route fails here until the table has a line for it.
func TestEveryChangeIsRecorded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, config sqldb.Config) {
		w := newWorld(t, config)
		db := w.database()
		for _, o := range w.operations {
			line := o.line()
			want, known := auditedRoutes[line]
			if !known && o.method == "GET" {
				want.why = "it changes nothing"
			} else if !known {
				t.Errorf("%s has no line in the table of what the audit log records", line)
				continue
			}
			if want.elsewhere != "" {
				continue
			}
			for _, a := range w.attempts(db, o) {
				answer := want.use(a)
				name := fmt.Sprintf("%s by %s", line, a.actor)
				if answer.status >= 300 && (o.method != "GET" || want.actions != "") {
					t.Errorf("%s: %d %.200s", name, answer.status, answer.body)
					continue
				}
				var actions []string
				told := 0
				for _, e := range w.entries(db, "request_id = $1", answer.header.Get("X-Request-Id")) {
					if o.rule.TakesAdmins() && e.user != w.admin.UserID { // and once more in the user's own log
						if e.actor != fmt.Sprintf("administrator %d", w.admin.UserID) {
							t.Errorf("%s: %s is by %q in the log of the user", name, e.action, e.actor)
						}
						told++
						continue
					}
					actions = append(actions, e.action)
					if e.actor != a.actor || e.user != a.owner().UserID {
						t.Errorf("%s: %s is by %q in the log of user %d, want user %d", name, e.action, e.actor, e.user, a.r.UserID)
					}
				}
				if o.rule.TakesAdmins() && told != len(actions) {
					t.Errorf("%s: %d entries in the user's log, %d in the administrator's", name, told, len(actions))
				}
				if got := strings.Join(actions, " "); got != want.actions {
					t.Errorf("%s: recorded %q, want %q", name, got, want.actions)
				}
			}
		}
		for line := range auditedRoutes {
			if w.find(line) == nil {
				t.Errorf("the table has a line for %s, which is not mounted", line)
			}
		}
		w.verifyAudit()
	})
}

// attempts are one for each kind of credential that the operation takes.
func (w *world) attempts(db *sqldb.DB, o *operation) (list []*attempt) {
	w.t.Helper()
	w.alice.caller = w.sessionSince(db, w.alice, time.Now()) // an earlier one may have ended all sessions
	with := func(c *caller, actor string) {
		list = append(list, &attempt{w: w, o: o, r: w.alice, c: c, actor: actor, ids: maps.Clone(w.alice.ids)})
	}
	switch {
	case o.rule.TakesDevice():
		with(w.alice.device.caller, fmt.Sprintf("device %d", w.alice.device.ID))
	case o.rule.TakesNone() && !o.rule.Recognises():
		with(w.anonymous(), "anonymous")
	}
	if o.rule.TakesSession() || o.rule.Recognises() {
		a := &attempt{w: w, o: o, r: w.alice, ids: maps.Clone(w.alice.ids)}
		a.signIn(db)
		list = append(list, a)
	}
	if o.rule.TakesKey() {
		entries := everything()
		if strings.HasSuffix(o.path, "/certificate-assign") {
			entries = []map[string]any{entry("certificates", w.alice.ids["certificate_id"], "read")}
		}
		key := w.alice.apiKey(entries...)
		with(key.caller, fmt.Sprintf("key %d", key.ID))
	}
	if len(list) == 0 {
		w.t.Fatalf("%s takes no credential that there is", o.line())
	}
	return list
}

// owner is whose log has the session's own entries.
func (a *attempt) owner() *resident {
	if a.o.rule.TakesAdmins() {
		return a.w.admin
	}
	return a.r
}

// signIn gives the attempt a session of its own.
func (a *attempt) signIn(db *sqldb.DB) {
	a.w.t.Helper()
	a.c = a.w.sessionSince(db, a.r, time.Now())
	if a.o.rule.TakesAdmins() {
		a.c = a.w.sessionWith(db, a.w.admin, time.Now(), access.AAL2)
	}
	var sessions []struct {
		ID      int64
		Current bool
	}
	a.c.do("GET", "/apiv1/me/sessions", nil, 200).data(a.w.t, &sessions)
	for _, s := range sessions {
		if s.Current {
			a.actor = fmt.Sprintf("session %d", s.ID)
			a.ids["session_id"] = strconv.FormatInt(s.ID, 10)
		}
	}
}

func (r *resident) email(w *world) string {
	if r == w.alice {
		return "alice@example.org"
	}
	return "bob@example.org"
}

// What somebody is refused is in the log of whom it concerns, and a flood of it
// does not fill the log.
func TestEveryRefusalIsRecorded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, config sqldb.Config) {
		w := newWorld(t, config)
		db, alice, foreign := w.database(), w.alice, fmt.Sprintf("/apiv1/users/%d/devices", w.bob.UserID)
		weak, gone := alice.apiKey(entry("devices", "*", "read")), alice.apiKey(entry("devices", "*", "read"))
		alice.do("DELETE", gone.path(), nil, 204)
		late := alice.apiKey(entry("devices", "*", "read"))
		if _, err := db.Writer().ExecContext(t.Context(), "UPDATE api_keys SET expires_at = 1 WHERE id = $1", late.ID); err != nil {
			t.Fatal(err)
		}
		login := func(email string) map[string]any {
			return map[string]any{"action": "login", "email": email, "password": "Wrong-Password-1"}
		}
		for name, tt := range map[string]struct {
			a      *answer
			status int
			want   entryOf
		}{
			"a key without the right":   {weak.try("POST", "/apiv1/me/acme-accounts", accountExample(alice)), 403, entryOf{alice.UserID, fmt.Sprintf("key %d", weak.ID), "access.refused", "POST /apiv1/users/{user_id}/acme-accounts"}},
			"a key where none is taken": {weak.try("GET", "/apiv1/me/apikeys", nil), 403, entryOf{alice.UserID, fmt.Sprintf("key %d", weak.ID), "access.refused", "GET /apiv1/users/{user_id}/apikeys"}},
			"a key on a foreign path":   {weak.try("GET", foreign, nil), 403, entryOf{alice.UserID, fmt.Sprintf("key %d", weak.ID), "access.refused", "GET /apiv1/users/{user_id}/devices"}},
			"a session on another's":    {alice.try("GET", foreign, nil), 403, entryOf{alice.UserID, "session " + alice.ids["session_id"], "access.refused", "GET /apiv1/users/{user_id}/devices"}},
			"a revoked key":             {gone.try("GET", "/apiv1/me/devices", nil), 401, entryOf{alice.UserID, fmt.Sprintf("key %d", gone.ID), "apikey.refused", fmt.Sprintf("apikey %d", gone.ID)}},
			"an expired key":            {late.try("GET", "/apiv1/me/devices", nil), 401, entryOf{alice.UserID, fmt.Sprintf("key %d", late.ID), "apikey.refused", fmt.Sprintf("apikey %d", late.ID)}},
			"a wrong password":          {w.anonymous().try("POST", "/auth/general", login("alice@example.org")), 401, entryOf{alice.UserID, "anonymous", "session.sign_in_refused", fmt.Sprintf("user %d", alice.UserID)}},
			"a stranger":                {w.anonymous().try("POST", "/auth/general", login("nobody@example.org")), 401, entryOf{0, "anonymous", "session.sign_in_refused", "user 0"}},
			"a wrong code":              {w.anonymous().try("POST", "/auth/general", map[string]any{"action": "activate-user", "email": "alice@example.org", "verify_code": "000000"}), 400, entryOf{alice.UserID, "anonymous", "user.code_refused", fmt.Sprintf("user %d", alice.UserID)}},
			"a wrong user code":         {alice.try("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": "BCDF-GHJK"}), 400, entryOf{alice.UserID, "session " + alice.ids["session_id"], "device.code_refused", "device code"}},
			"a wrong registration code": {w.anonymous().try("POST", "/apiv1/device/registration", w.find("POST /apiv1/device/registration").good(alice)), 400, entryOf{0, "anonymous", "device.code_refused", "device code"}},
			"a wrong setup link":        {w.anonymous().try("POST", "/auth/setup", map[string]any{"token": strings.Repeat("A", 43), "email": "x@example.org", "password": password}), 401, entryOf{0, "anonymous", "user.setup_refused", "setup link"}},
			"a wrong step-up":           {alice.try("POST", "/auth/step-up", map[string]any{"password": "Wrong-Password-1"}), 401, entryOf{alice.UserID, "session " + alice.ids["session_id"], "session.step_up_refused", "session " + alice.ids["session_id"]}},
		} {
			got := w.entries(db, "request_id = $1", tt.a.header.Get("X-Request-Id"))
			if tt.a.status != tt.status || !slices.Equal(got, []entryOf{tt.want}) {
				t.Errorf("%s: %d %.200s, recorded %v, want %v", name, tt.a.status, tt.a.body, got, tt.want)
			}
		}
		// Garbage is nobody's refusal.
		for _, c := range []*caller{w.anonymous(), w.bearer("x"), w.bearer(unknownKey)} {
			a := c.try("GET", "/apiv1/me/devices", nil)
			if got := w.entries(db, "request_id = $1", a.header.Get("X-Request-Id")); a.status != 401 || len(got) != 0 {
				t.Errorf("garbage: %d, recorded %v", a.status, got)
			}
		}
		for range 40 {
			weak.do("GET", "/apiv1/me/apikeys", nil, 403)
		}
		if n := len(w.entries(db, "actor = $1", fmt.Sprintf("key %d", weak.ID))); n != 20 {
			t.Errorf("%d refusals of one key", n)
		}
		w.verifyAudit()

		// The owner reads them; with the address and the program it came from.
		var list []audit.Record
		alice.do("GET", "/apiv1/me/audit-log?action=apikey.refused", nil, 200).data(t, &list)
		slices.SortFunc(list, func(a, b audit.Record) int { return strings.Compare(a.Object, b.Object) })
		if len(list) != 2 || list[1].Detail["reason"] != "expired" || list[0].IP != "127.0.0.1" || !strings.HasPrefix(list[0].UserAgent, "Go-http-client") || list[0].Detail["reason"] != "revoked" {
			t.Errorf("%+v", list)
		}
	})
}
