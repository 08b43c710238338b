package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// credential is one thing that a caller may present, and whether a route takes
// it.
type credential struct {
	name   string
	caller *caller
	fits   func(o *operation) bool
}

func never(*operation) bool { return false }

// Every route takes the credentials on its line and no other: 401/5018 for what
// is missing or wrong. Nobody changes anything with the wrong one.
func TestEveryRouteAndCredential(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		left := w.settleSession(t, "carol@example.org")
		cookie := w.config.SessionCookie
		garbage := func(value string) *caller {
			return &caller{p: w.program, header: http.Header{"Cookie": {cookie + "=" + value}}}
		}
		header, payload, signature := jwtParts(w.alice.device)
		credentials := []credential{
			{"no credential", w.anonymous(), never},
			{"an empty cookie", garbage(""), never},
			{"a garbage cookie", garbage("0123456789012345678901234567890123456789012"), never},
			{"a cookie with quotes", garbage(`"' OR 1=1 --"`), never},
			{"a session that was left", left, never},
			{"a garbage bearer", w.bearer("garbage"), never},
			{"an empty bearer", w.bearer(""), never},
			{"a token without signature", w.bearer(header + "." + payload + "."), never},
			{"a token with another signature", w.bearer(header + "." + payload + "." + strings.Repeat("A", len(signature))), never},
			{"a token of no algorithm", w.bearer("eyJhbGciOiJub25lIn0." + payload + "."), never},
			{"an unknown key", w.bearer(unknownKey), never},
			{"the key prefix", w.bearer("ak_"), never},
			{"a refresh token", w.bearer(w.alice.device.Refresh), never},
			{"a basic password", &caller{p: w.program, header: http.Header{"Authorization": {"Basic YTpi"}}}, never},
			{"a device token", w.alice.device.caller, func(o *operation) bool { return o.rule.TakesDevice() }},
			{"a session", w.alice.caller, func(o *operation) bool { return o.rule.TakesSession() }},
		}
		if key := w.alice.keys["*"]; key != "" {
			credentials = append(credentials,
				credential{"a key", w.bearer(key), func(o *operation) bool { return o.rule.TakesKey() }},
				credential{"a key with more behind it", w.bearer(key + "A"), never},
				credential{"a key in a cookie", garbage(key), never})
		}
		before := w.seen(t, w.alice)
		for _, o := range w.operations {
			if o.rule.TakesNone() {
				continue
			}
			for _, c := range credentials {
				if c.fits(o) {
					continue
				}
				path := w.fill(o, w.alice.ids)
				alias := strings.Replace(path, "/apiv1/users/"+w.alice.ids["user_id"]+"/", "/apiv1/me/", 1)
				for _, path := range slices.Compact([]string{path, alias}) {
					name := fmt.Sprintf("%s with %s at %s", o.line(), c.name, path)
					a := c.caller.try(o.method, path, o.good(w.alice))
					status, code := 401, 5018
					if c.name == "a key" && o.rule.TakesSession() { // good, but not for this
						status, code = 403, 5022
					}
					if p := a.check(t, name, o); p == nil || a.status != status || p.Code != code {
						t.Errorf("%s: %d %.200s, want %d/%d", name, a.status, a.body, status, code)
					}
				}
			}
		}
		if after := w.seen(t, w.alice); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
	})
}

// settleSession makes a person who signs in and out again.
func (w *world) settleSession(t *testing.T, email string) *caller {
	t.Helper()
	c := w.person(email)
	c.do("POST", "/auth/logout", nil, 204)
	return c
}

func jwtParts(d *device) (header, payload, signature string) {
	parts := strings.Split(strings.TrimPrefix(d.header.Get("Authorization"), "Bearer "), ".")
	return parts[0], parts[1], parts[2]
}

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
			for _, user := range []string{other, "0" + own, "+" + own, "%20" + own, own + "%20", own + ".0", "9223372036854775808", "me", "~", "-" + own, "4711", "%2b" + own} {
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

// What somebody may no longer do ends at once, on every route: a disabled user,
// a deleted device.
func TestEndOfAccess(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		w.alice.do("DELETE", "/apiv1/me/devices/"+w.alice.ids["device_id"], nil, 204)
		users, done, err := app.Users(t.Context(), w.config)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		if err := users.DisableUser(t.Context(), w.bob.UserID); err != nil {
			t.Fatal(err)
		}
		for _, o := range w.operations {
			for who, r := range map[string]*resident{"deleted device": w.alice, "disabled user": w.bob} {
				if !o.rule.TakesDevice() && (who == "deleted device" || !o.rule.TakesSession()) {
					continue
				}
				a := w.as(o, r).try(o.method, w.fill(o, r.ids), o.good(r))
				a.check(t, o.line(), o)
				want := []int{401}
				if o.rule.TakesDevice() {
					want = []int{401, 403} // wire.md section 2: the token is good, its device is not
				}
				if !slices.Contains(want, a.status) {
					t.Errorf("%s by a %s: %d %.200s", o.line(), who, a.status, a.body)
				}
			}
		}
		a := w.anonymous().try("POST", "/auth/refresh", map[string]any{"refresh_token": w.alice.device.Refresh})
		b := w.anonymous().try("POST", "/auth/refresh", map[string]any{"refresh_token": w.bob.device.Refresh})
		c := w.anonymous().try("POST", "/auth/general", map[string]any{"action": "login", "email": "bob@example.org", "password": password})
		if a.status != 401 || b.status != 403 || c.status != 401 { // wire.md section 1: 5022 for a device that is not active
			t.Errorf("refresh of a deleted device: %d %s, of a disabled user: %d %s, login: %d %s", a.status, a.body, b.status, b.body, c.status, c.body)
		}
	})
}
