package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestNoDefaultAccount is OWASP ASVS 6.3.2: a new server has no user, and
// nobody signs in to it with what other systems come with.
func TestNoDefaultAccount(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		for _, table := range []string{"users", "sessions", "api_keys", "devices", "passkeys"} {
			if n := rows(t, p.database(), "SELECT COUNT(*) FROM "+table)[0][0]; fmt.Sprint(n) != "0" {
				t.Errorf("%v %s on an empty database", n, table)
			}
		}
		for _, pair := range [][2]string{{"admin@example.org", "admin"}, {"admin@localhost", "password"}, {"root@localhost", "root"}, {"admin@certharbor.dev", "certharbor"}} {
			p.anonymous().general(401, "login", pair[0], "password", pair[1])
		}
		for _, email := range []string{"", "admin", "root"} {
			p.anonymous().general(400, "login", email, "password", "admin")
		}
		p.anonymous().do("POST", "/auth/setup", map[string]any{"token": "", "email": "root@example.org", "password": password}, 401)
	})
}

// TestSecretsAreNotGuessable is OWASP ASVS 7.2.3: everything that is handed out
// and opens something alone has 256 random bits, and none is given out twice.
func TestSecretsAreNotGuessable(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, dbtest.SQLiteConfig(t)), app.Options{}, nil)
	const rounds = 5
	for i := range rounds {
		me := p.person(fmt.Sprintf("me%d@example.org", i))
		me.enrol(publicID(i))
		me.apiKey(entry("devices", "*", "read"))
		me.do("POST", "/auth/webauthn/register/options", nil, 200)
	}
	count := map[string]int{}
	for value, what := range p.secrets.found {
		count[what]++
		value = strings.TrimPrefix(value, "rc_")
		raw, err := base64.RawURLEncoding.DecodeString(value)
		switch what {
		case "cookie certharbor_session", "refresh_token", "device_code", "registration_code", "challenge", "access_token":
			if err != nil || len(raw) != 32 || distinct(string(raw)) < 16 {
				t.Errorf("%s is %q", what, value)
			}
		case "token": // without the 8 characters that lists show: 35 of 43
			if len(value) != 38 || distinct(value) < 14 {
				t.Errorf("%s is %q", what, value)
			}
		}
	}
	for _, what := range []string{"cookie certharbor_session", "refresh_token", "device_code", "registration_code", "challenge", "token", "user_code"} {
		if count[what] != rounds {
			t.Errorf("%d different %s, want %d", count[what], what, rounds)
		}
	}
}

// TestMassAssignment is OWASP ASVS 8.2.3 and 15.3.3: nobody sets what is not
// theirs to set by adding it to a body. Where unknown members are refused the
// answer names it; devices' endpoints pass over it.
func TestMassAssignment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	const planted = 4611686018427387000
	extra := map[string]any{
		"id": planted, "owner_id": planted, "roles": []any{"admin"}, "admin": true, "is_admin": true, "acr": "aal2", "amr": []any{"hwk"}, "auth_time": planted,
		"created_at": planted, "expires_at": planted, "token_hash": "x", "session_no": planted, "verified": true, "Roles": []any{"admin"}, "__proto__": map[string]any{"admin": true},
	}
	before := w.world(t)
	tried := 0
	for _, o := range w.operations {
		for _, good := range o.bodies(w.bob) {
			object, ok := good.(map[string]any)
			if !ok {
				continue
			}
			for name, value := range extra {
				if o.body.Properties[strings.ToLower(name)] != nil {
					continue
				}
				body := maps.Clone(object)
				body[name] = value
				a := w.as(o, w.bob).try(o.method, w.fill(o, w.bob.ids), body)
				p := a.check(t, o.line(), o)
				lenient := o.body.AdditionalProperties != any(false)
				if !lenient && (a.status != 400 || !p.names(name)) {
					t.Errorf("%s with %s: %d %.200s", o.line(), name, a.status, a.body)
				}
				if strings.Contains(string(a.body), strconv.Itoa(planted)) {
					t.Errorf("%s with %s took it: %.300s", o.line(), name, a.body)
				}
				tried++
			}
		}
	}
	if after := w.world(t); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
	if tried < 200 {
		t.Errorf("only %d were tried", tried)
	}
}

// world is who there is, what they are, and how they signed in.
func (w *world) world(t *testing.T) string {
	t.Helper()
	var all []string
	for _, query := range []string{"SELECT id, email, status, roles FROM users ORDER BY id", "SELECT DISTINCT user_id, amr, acr FROM sessions ORDER BY user_id, acr, amr", "SELECT id, user_id FROM acme_accounts WHERE user_id = 1 ORDER BY id", "SELECT id, user_id, public_id FROM devices ORDER BY id"} {
		for _, row := range rows(t, w.database(), query) {
			all = append(all, fmt.Sprint(row...))
		}
	}
	return strings.Join(all, "\n")
}

// urlSecrets are the parameters that carry a secret in a URL because the
// protocol wants it so: each is good once, or opens nothing alone.
var urlSecrets = []string{
	"GET /device user_code", "GET /auth/device user_code", // RFC 8628: shown by the device, needs a session
	"GET /auth/github/callback code", "GET /auth/weixin/callback code", "GET /auth/oidc/{name}/callback code", // RFC 6749: needs the browser's cookie
	"GET /auth/solana signature", // decisions.md section 2: over a message that is good once
}

// TestNoSecretsInURLs is OWASP ASVS 14.2.1: no route takes a secret in its
// query, and no answer gives out a link with one.
func TestNoSecretsInURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	secret := regexp.MustCompile(`(?i)token|secret|password|code|signature|\bkey\b|hmac|session`)
	for _, o := range w.operations {
		for _, name := range slices.Sorted(maps.Keys(o.query)) {
			if secret.MatchString(name) && !slices.Contains(urlSecrets, o.line()+" "+name) {
				t.Errorf("%s takes %s in the query", o.line(), name)
			}
		}
	}
	// Every URL that was given out, in a member or in a header.
	links := regexp.MustCompile(`https?://[^"\s\\]+|"/[a-z][^"\s]*\?[^"\s]*"`)
	for _, o := range w.operations {
		if o.method != "GET" || o.raw || !w.admitted(o) {
			continue
		}
		a := w.as(o, w.alice).try("GET", w.fill(o, w.alice.ids), nil)
		for _, link := range append(links.FindAllString(string(a.body), -1), a.header.Get("Location")) {
			u, err := url.Parse(strings.Trim(link, `"`))
			if err != nil {
				continue
			}
			for name := range u.Query() {
				if secret.MatchString(name) && name != "user_code" {
					t.Errorf("%s gives out %s", o.line(), link)
				}
			}
		}
	}
}

// TestFailsClosed is OWASP ASVS 16.5.3: when a credential cannot be checked,
// nobody is let in, and nobody hears why.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		device := w.alice.enrol(publicID(0xdd)) // that nothing is remembered of
		w.execute("ALTER TABLE sessions RENAME TO sessions_away")
		w.execute("ALTER TABLE api_keys RENAME TO api_keys_away")
		w.execute("ALTER TABLE devices RENAME TO devices_away")
		key := w.bearer(w.alice.keys["*"])
		for _, o := range w.operations {
			if o.rule.TakesNone() {
				continue
			}
			for name, who := range map[string]*caller{"session": w.alice.caller, "key": key, "device": device.caller} {
				a := who.try(o.method, w.fill(o, w.alice.ids), o.good(w.alice))
				refused := a.status == 401 || a.status == 403
				taken := name == "session" && o.rule.TakesSession() || name == "device" && o.rule.TakesDevice() || name == "key" && !o.rule.TakesDevice()
				if taken && a.status != 500 || !taken && !refused || strings.Contains(string(a.body), "sessions") || strings.Contains(string(a.body), "api_keys") {
					t.Errorf("%s by %s: %d %.200s", o.line(), name, a.status, a.body)
				}
			}
		}
		var status struct{ Authenticated bool }
		if a := w.alice.try("GET", "/auth/status", nil); a.status != 500 {
			_ = json.Unmarshal(a.body, &status)
			t.Errorf("status: %d %s", a.status, a.body)
		}
		for _, table := range []string{"sessions", "api_keys", "devices"} {
			w.execute("ALTER TABLE " + table + "_away RENAME TO " + table)
		}
		w.alice.do("GET", "/auth/profile", nil, 200)
		key.do("GET", "/apiv1/me/devices", nil, 200)
	})
}

// TestSpelledIDs is scenario 1 of threats.md for objects: an id written in
// another way is no way to somebody else's object, by session or by key.
func TestSpelledIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	before := w.seen(t, w.bob)
	for _, o := range w.operations {
		scope, _, object := o.takes()
		for _, parameter := range o.objects() {
			foreign := w.bob.ids[parameter]
			if !o.rule.TakesSession() || !regexp.MustCompile(`^\d+$`).MatchString(foreign) || o.line() == notImplemented || foreign == w.alice.ids[parameter] {
				continue
			}
			who := []*caller{w.alice.caller, w.bearer(w.alice.keys["*"])}
			if object == parameter {
				who = append(who, w.alice.apiKey(entry(scope, w.alice.ids[object], actionsOf(scope)...)).caller)
			}
			last := fmt.Sprintf("%%%x", foreign[len(foreign)-1])
			for _, spelled := range []string{"0" + foreign, "%2B" + foreign, "+" + foreign, foreign[:len(foreign)-1] + last, foreign + "%20", "%20" + foreign, foreign + "%2F", foreign + ".0", foreign + "e0", "0x" + foreign, "%EF%BC%9" + foreign[len(foreign)-1:]} {
				ids := maps.Clone(w.alice.ids)
				ids[parameter] = "PLACEHOLDER"
				path := strings.Replace(w.fill(o, ids), "PLACEHOLDER", spelled, 1)
				for _, c := range who {
					a := c.try(o.method, path, o.good(w.alice))
					if p := a.check(t, path, o); p == nil || a.status != 404 && a.status != 403 && a.status != 400 && a.status != 405 {
						t.Errorf("%s: %d %.200s", path, a.status, a.body)
					}
				}
			}
		}
	}
	if after := w.seen(t, w.bob); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
}
