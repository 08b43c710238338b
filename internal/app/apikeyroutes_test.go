package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/apikeys"
	"certharbor.dev/certharbor/internal/sqldb"
)

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
