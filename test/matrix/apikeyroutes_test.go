package matrix_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/apikeys"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// ring makes keys of alice, each once.
type ring struct {
	w    *apptest.World
	keys map[string]*apptest.APIKey
}

func (r *ring) with(entries ...map[string]any) *apptest.APIKey {
	name := apptest.Encoded(entries)
	if r.keys[name] == nil {
		r.keys[name] = r.w.Alice.APIKey(entries...)
	}
	return r.keys[name]
}

// all is a key that may do everything that a key may, but for one scope.
func (r *ring) all(but string) *apptest.APIKey {
	var entries []map[string]any
	for _, s := range apikeys.Catalog() {
		if s.Name != but {
			entries = append(entries, apptest.Entry(s.Name, "*", s.Actions...))
		}
	}
	return r.with(entries...)
}

// A key cannot become more than it is: it manages no keys and no sessions, is
// no session, and one for named objects makes no new ones.
func TestKeyCannotEscalate(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		keys := &ring{w, map[string]*apptest.APIKey{}}
		full := keys.all("")
		wide := map[string]any{"name": "n", "expires_in_seconds": 60, "permissions": []any{apptest.Entry("certificates", "*", "read", "write", "issue")}}
		for _, test := range []struct {
			line   string
			body   any
			status int
		}{
			{"GET /apiv1/me/apikeys", nil, 403},
			{"POST /apiv1/me/apikeys", wide, 403},
			{"GET " + full.Path(), nil, 403},
			{"PATCH " + full.Path(), map[string]any{"permissions": wide["permissions"]}, 403},
			{"DELETE " + full.Path(), nil, 403},
			{fmt.Sprintf("GET /apiv1/users/%d/devices", w.Bob.UserID), nil, 403},
			{fmt.Sprintf("POST /apiv1/users/%d/apikeys", w.Bob.UserID), wide, 403},
			{"GET /auth/profile", nil, 403},
			{"POST /auth/refresh", nil, 401},
			{"POST /auth/device", map[string]any{"action": "device_verify", "user_code": "ABCD-EFGH"}, 401},
			{"GET /apiv1/devices/self/updates", nil, 401},
		} {
			method, path, _ := strings.Cut(test.line, " ")
			a := full.Try(method, path, test.body)
			if a.Status != test.status || a.Header.Get("Set-Cookie") != "" && test.status != 401 {
				t.Errorf("%s: %d %s %v, want %d", test.line, a.Status, a.Body, a.Header["Set-Cookie"], test.status)
			}
		}
		var status struct{ Authenticated bool }
		if full.Do("GET", "/auth/status", nil, 200).Data(t, &status); status.Authenticated {
			t.Error("a key counts as a session")
		}
		full.Try("POST", "/auth/logout", nil)
		w.Alice.Do("GET", "/auth/profile", nil, 200)
		w.Alice.Do("GET", full.Path(), nil, 200)

		// With a session beside it, the key decides.
		both := &apptest.Caller{P: w.Program, Header: maps.Clone(full.Header)}
		both.Header.Set("Cookie", w.Alice.Header.Get("Cookie"))
		both.Do("GET", "/apiv1/me/apikeys", nil, 403)

		id := w.Alice.Ids
		for line, k := range map[string]*apptest.APIKey{
			"POST U/certificates":     keys.with(apptest.Entry("certificates", id["certificate_id"], "read", "write", "issue")),
			"POST U/acme-accounts":    keys.with(apptest.Entry("acme_accounts", id["acme_account_id"], "read", "write")),
			"POST U/service_webhooks": keys.with(apptest.Entry("service_webhooks", id["webhook_id"], "read", "write")),
		} {
			o := w.Find(line)
			if a := k.Try(o.Method, w.Fill(o, id), o.Good(w.Alice)); a.Status != 403 {
				t.Errorf("%s by a key for one object: %d %s", line, a.Status, a.Body)
			}
			var list []struct{ ID json.Number }
			k.Do("GET", w.Fill(o, id), nil, 200).Data(t, &list)
			if len(list) != 1 {
				t.Errorf("%s by a key for one object: %v", line, list)
			}
		}
	})
}
