package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/apikeys"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

var keyRule = regexp.MustCompile(`key (\w+):([a-z+]+)(?: on (\w+))?`)

// takes is what the route wants of a key; empty when it takes none.
func (o *operation) takes() (scope string, actions []string, object string) {
	m := keyRule.FindStringSubmatch(o.rule.String())
	if m == nil {
		return "", nil, ""
	}
	return m[1], strings.Split(m[2], "+"), m[3]
}

// listOfKeys is the line of what a resident sees that the ring changes.
var listOfKeys = regexp.MustCompile(`(?m)^GET U/apikeys 200 .*$`)

// ring makes keys of alice, each once.
type ring struct {
	w    *world
	keys map[string]*apiKey
}

func (r *ring) with(entries ...map[string]any) *apiKey {
	name := encoded(entries)
	if r.keys[name] == nil {
		r.keys[name] = r.w.alice.apiKey(entries...)
	}
	return r.keys[name]
}

// all is a key that may do everything that a key may, but for one scope.
func (r *ring) all(but string) *apiKey {
	var entries []map[string]any
	for _, s := range apikeys.Catalog() {
		if s.Name != but {
			entries = append(entries, entry(s.Name, "*", s.Actions...))
		}
	}
	return r.with(entries...)
}

// Every route with every kind of key: it takes what its line says and nothing
// else, and whatever is refused changes nothing (threats.md, section 4, access).
func TestEveryRouteAndKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		keys := &ring{w, map[string]*apiKey{}}
		full := keys.all("")
		w.alice.ids["apikey_id"] = strconv.FormatInt(full.ID, 10)
		dead := w.deadKeys(t)
		seen := func() string { return listOfKeys.ReplaceAllString(w.seen(t, w.alice), "") }
		before := seen()
		for _, o := range w.operations {
			if o.rule.TakesNone() {
				continue
			}
			path := w.fill(o, w.alice.ids)
			refused := func(what string, k *apiKey, status, code int) *problem {
				t.Helper()
				a := k.try(o.method, path, o.good(w.alice))
				p := a.check(t, o.line()+" with "+what, o)
				if p == nil || a.status != status || p.Code != code {
					t.Errorf("%s with %s: %d %.200s, want %d/%d", o.line(), what, a.status, a.body, status, code)
				}
				return p
			}
			texts := map[string]bool{}
			for what, k := range dead {
				if p := refused(what, k, 401, 5018); p != nil && !o.rule.TakesDevice() {
					texts[p.What] = true
				}
			}
			if len(texts) > 1 {
				t.Errorf("%s tells dead keys apart: %v", o.line(), texts)
			}
			scope, actions, object := o.takes()
			switch {
			case o.rule.TakesDevice(), o.rule.TakesWorker():
				refused("a key for everything", full, 401, 5018)
				continue
			case scope == "":
				refused("a key for everything", full, 403, 5022)
				continue
			}
			if p := refused("a key without the scope", keys.all(scope), 403, 5022); p != nil && !p.names(scope) {
				t.Errorf("%s: %s does not name %s", o.line(), p.What, scope)
			}
			for _, action := range actions {
				rest := slices.DeleteFunc(actionsOf(scope), func(a string) bool { return a == action })
				if len(rest) > 0 {
					refused("a key without "+action, keys.with(entry(scope, "*", rest...)), 403, 5022)
				}
			}
			if object != "" {
				other := keys.with(entry(scope, 777777, actionsOf(scope)...))
				none := maps.Clone(w.alice.ids)
				none[object] = absentID(object)
				same(t, o.line()+" with a key for another object", other.try(o.method, path, o.good(w.alice)), full.try(o.method, w.fill(o, none), o.good(w.alice)), 404)
			}
		}
		if after := seen(); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
		w.taken(t, full)
	})
}

// taken tries every route that takes keys with one that may do everything.
func (w *world) taken(t *testing.T, full *apiKey) {
	t.Helper()
	last := slices.Clone(w.operations) // deletions at the end, of what is in others last
	slices.SortStableFunc(last, func(a, b *operation) int {
		rank := func(o *operation) int {
			if o.method != "DELETE" {
				return 0
			}
			return 100 - len(o.path)/2
		}
		return rank(a) - rank(b)
	})
	for _, o := range last {
		if scope, _, _ := o.takes(); scope == "" || strings.HasSuffix(o.path, "/certificate-assign") {
			continue
		}
		a := full.try(o.method, w.fill(o, w.alice.ids), o.good(w.alice))
		a.check(t, o.line(), o)
		if a.status == 401 || a.status == 403 {
			t.Errorf("%s with a key for everything: %d %s", o.line(), a.status, a.body)
		}
	}
}

func actionsOf(scope string) []string {
	for _, s := range apikeys.Catalog() {
		if s.Name == scope {
			return s.Actions
		}
	}
	return nil
}

// deadKeys are keys that were good once.
func (w *world) deadKeys(t *testing.T) map[string]*apiKey {
	t.Helper()
	everything := func(c *caller) *apiKey {
		var entries []map[string]any
		for _, s := range apikeys.Catalog() {
			entries = append(entries, entry(s.Name, "*", s.Actions...))
		}
		k := c.apiKey(entries...)
		k.do("GET", "/apiv1/me/devices", nil, 200)
		return k
	}
	expired, revoked := everything(w.alice.caller), everything(w.alice.caller)
	w.execute("UPDATE api_keys SET expires_at = 1 WHERE id = $1", expired.ID)
	w.alice.do("DELETE", revoked.path(), nil, 204)
	carol := w.person("carol@example.org")
	orphan := everything(carol)
	users, done, err := app.Users(t.Context(), w.config)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := users.DisableUser(t.Context(), carol.UserID); err != nil { // as the operator's command does
		t.Fatal(err)
	}
	return map[string]*apiKey{"an expired key": expired, "a revoked key": revoked, "a key of a disabled user": orphan}
}

// A key cannot become more than it is: it manages no keys and no sessions, is
// no session, and one for named objects makes no new ones.
func TestKeyCannotEscalate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		keys := &ring{w, map[string]*apiKey{}}
		full := keys.all("")
		wide := map[string]any{"name": "n", "expires_in_seconds": 60, "permissions": []any{entry("certificates", "*", "read", "write", "issue")}}
		for _, test := range []struct {
			line   string
			body   any
			status int
		}{
			{"GET /apiv1/me/apikeys", nil, 403},
			{"POST /apiv1/me/apikeys", wide, 403},
			{"GET " + full.path(), nil, 403},
			{"PATCH " + full.path(), map[string]any{"permissions": wide["permissions"]}, 403},
			{"DELETE " + full.path(), nil, 403},
			{fmt.Sprintf("GET /apiv1/users/%d/devices", w.bob.UserID), nil, 403},
			{fmt.Sprintf("POST /apiv1/users/%d/apikeys", w.bob.UserID), wide, 403},
			{"GET /auth/profile", nil, 403},
			{"POST /auth/refresh", nil, 401},
			{"POST /auth/device", map[string]any{"action": "device_verify", "user_code": "ABCD-EFGH"}, 401},
			{"GET /apiv1/devices/self/updates", nil, 401},
		} {
			method, path, _ := strings.Cut(test.line, " ")
			a := full.try(method, path, test.body)
			if a.status != test.status || a.header.Get("Set-Cookie") != "" && test.status != 401 {
				t.Errorf("%s: %d %s %v, want %d", test.line, a.status, a.body, a.header["Set-Cookie"], test.status)
			}
		}
		var status struct{ Authenticated bool }
		if full.do("GET", "/auth/status", nil, 200).data(t, &status); status.Authenticated {
			t.Error("a key counts as a session")
		}
		full.try("POST", "/auth/logout", nil)
		w.alice.do("GET", "/auth/profile", nil, 200)
		w.alice.do("GET", full.path(), nil, 200)

		// With a session beside it, the key decides.
		both := &caller{p: w.program, header: maps.Clone(full.header)}
		both.header.Set("Cookie", w.alice.header.Get("Cookie"))
		both.do("GET", "/apiv1/me/apikeys", nil, 403)

		id := w.alice.ids
		for line, k := range map[string]*apiKey{
			"POST U/certificates":     keys.with(entry("certificates", id["certificate_id"], "read", "write", "issue")),
			"POST U/acme-accounts":    keys.with(entry("acme_accounts", id["acme_account_id"], "read", "write")),
			"POST U/service_webhooks": keys.with(entry("service_webhooks", id["webhook_id"], "read", "write")),
		} {
			o := w.find(line)
			if a := k.try(o.method, w.fill(o, id), o.good(w.alice)); a.status != 403 {
				t.Errorf("%s by a key for one object: %d %s", line, a.status, a.body)
			}
			var list []struct{ ID json.Number }
			k.do("GET", w.fill(o, id), nil, 200).data(t, &list)
			if len(list) != 1 {
				t.Errorf("%s by a key for one object: %v", line, list)
			}
		}
	})
}
