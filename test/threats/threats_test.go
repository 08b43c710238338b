package threats_test

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
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestNoDefaultAccount is OWASP ASVS 6.3.2: a new server has no user, and
// nobody signs in to it with what other systems come with.
func TestNoDefaultAccount(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		for _, table := range []string{"users", "sessions", "api_keys", "devices", "passkeys"} {
			if n := apptest.Rows(t, p.Database(), "SELECT COUNT(*) FROM "+table)[0][0]; fmt.Sprint(n) != "0" {
				t.Errorf("%v %s on an empty database", n, table)
			}
		}
		for _, pair := range [][2]string{{"admin@example.org", "admin"}, {"admin@localhost", "password"}, {"root@localhost", "root"}, {"admin@certharbor.dev", "certharbor"}} {
			p.Anonymous().General(401, "login", pair[0], "password", pair[1])
		}
		for _, email := range []string{"", "admin", "root"} {
			p.Anonymous().General(400, "login", email, "password", "admin")
		}
		p.Anonymous().Do("POST", "/auth/setup", map[string]any{"token": "", "email": "root@example.org", "password": apptest.Password}, 401)
	})
}

// TestSecretsAreNotGuessable is OWASP ASVS 7.2.3: everything that is handed out
// and opens something alone has 256 random bits, and none is given out twice.
func TestSecretsAreNotGuessable(t *testing.T) {
	t.Parallel()
	p := apptest.Start(t, apptest.Settings(t, dbtest.SQLiteConfig(t)), app.Options{}, nil)
	const rounds = 5
	for i := range rounds {
		me := p.Person(fmt.Sprintf("me%d@example.org", i))
		me.Enrol(apptest.PublicID(i))
		me.APIKey(apptest.Entry("devices", "*", "read"))
		me.Do("POST", "/auth/webauthn/register/options", nil, 200)
	}
	count := map[string]int{}
	for value, what := range p.Secrets.Found {
		count[what]++
		value = strings.TrimPrefix(value, "rc_")
		raw, err := base64.RawURLEncoding.DecodeString(value)
		switch what {
		case "cookie certharbor_session", "refresh_token", "device_code", "registration_code", "challenge", "access_token":
			if err != nil || len(raw) != 32 || apptest.Distinct(string(raw)) < 16 {
				t.Errorf("%s is %q", what, value)
			}
		case "token": // without the 8 characters that lists show: 35 of 43
			if len(value) != 38 || apptest.Distinct(value) < 14 {
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
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	const planted = 4611686018427387000
	extra := map[string]any{
		"id": planted, "owner_id": planted, "roles": []any{"admin"}, "admin": true, "is_admin": true, "acr": "aal2", "amr": []any{"hwk"}, "auth_time": planted,
		"created_at": planted, "expires_at": planted, "token_hash": "x", "session_no": planted, "verified": true, "Roles": []any{"admin"}, "__proto__": map[string]any{"admin": true},
	}
	before := w.World(t)
	tried := 0
	for _, o := range w.Operations {
		for _, good := range o.Bodies(w.Bob) {
			object, ok := good.(map[string]any)
			if !ok {
				continue
			}
			for name, value := range extra {
				if o.Body.Properties[strings.ToLower(name)] != nil {
					continue
				}
				body := maps.Clone(object)
				body[name] = value
				a := w.As(o, w.Bob).Try(o.Method, w.Fill(o, w.Bob.Ids), body)
				p := a.Check(t, o.Line(), o)
				lenient := o.Body.AdditionalProperties != any(false)
				if !lenient && (a.Status != 400 || !p.Names(name)) {
					t.Errorf("%s with %s: %d %.200s", o.Line(), name, a.Status, a.Body)
				}
				if strings.Contains(string(a.Body), strconv.Itoa(planted)) {
					t.Errorf("%s with %s took it: %.300s", o.Line(), name, a.Body)
				}
				tried++
			}
		}
	}
	if after := w.World(t); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
	if tried < 200 {
		t.Errorf("only %d were tried", tried)
	}
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
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	secret := regexp.MustCompile(`(?i)token|secret|password|code|signature|\bkey\b|hmac|session`)
	for _, o := range w.Operations {
		for _, name := range slices.Sorted(maps.Keys(o.Query)) {
			if secret.MatchString(name) && !slices.Contains(urlSecrets, o.Line()+" "+name) {
				t.Errorf("%s takes %s in the query", o.Line(), name)
			}
		}
	}
	// Every URL that was given out, in a member or in a header.
	links := regexp.MustCompile(`https?://[^"\s\\]+|"/[a-z][^"\s]*\?[^"\s]*"`)
	for _, o := range w.Operations {
		if o.Method != "GET" || o.Raw || !w.Admitted(o) {
			continue
		}
		a := w.As(o, w.Alice).Try("GET", w.Fill(o, w.Alice.Ids), nil)
		for _, link := range append(links.FindAllString(string(a.Body), -1), a.Header.Get("Location")) {
			u, err := url.Parse(strings.Trim(link, `"`))
			if err != nil {
				continue
			}
			for name := range u.Query() {
				if secret.MatchString(name) && name != "user_code" {
					t.Errorf("%s gives out %s", o.Line(), link)
				}
			}
		}
	}
}

// TestFailsClosed is OWASP ASVS 16.5.3: when a credential cannot be checked,
// nobody is let in, and nobody hears why.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		device := w.Alice.Enrol(apptest.PublicID(0xdd)) // that nothing is remembered of
		w.Execute("ALTER TABLE sessions RENAME TO sessions_away")
		w.Execute("ALTER TABLE api_keys RENAME TO api_keys_away")
		w.Execute("ALTER TABLE devices RENAME TO devices_away")
		key := w.Bearer(w.Alice.Keys["*"])
		for _, o := range w.Operations {
			if o.Rule.TakesNone() {
				continue
			}
			for name, who := range map[string]*apptest.Caller{"session": w.Alice.Caller, "key": key, "device": device.Caller} {
				a := who.Try(o.Method, w.Fill(o, w.Alice.Ids), o.Good(w.Alice))
				refused := a.Status == 401 || a.Status == 403
				taken := name == "session" && o.Rule.TakesSession() || name == "device" && o.Rule.TakesDevice() || name == "key" && !o.Rule.TakesDevice()
				if taken && a.Status != 500 || !taken && !refused || strings.Contains(string(a.Body), "sessions") || strings.Contains(string(a.Body), "api_keys") {
					t.Errorf("%s by %s: %d %.200s", o.Line(), name, a.Status, a.Body)
				}
			}
		}
		var status struct{ Authenticated bool }
		if a := w.Alice.Try("GET", "/auth/status", nil); a.Status != 500 {
			_ = json.Unmarshal(a.Body, &status)
			t.Errorf("status: %d %s", a.Status, a.Body)
		}
		for _, table := range []string{"sessions", "api_keys", "devices"} {
			w.Execute("ALTER TABLE " + table + "_away RENAME TO " + table)
		}
		w.Alice.Do("GET", "/auth/profile", nil, 200)
		key.Do("GET", "/apiv1/me/devices", nil, 200)
	})
}

// TestSpelledIDs is scenario 1 of threats.md for objects: an id written in
// another way is no way to somebody else's object, by session or by key.
func TestSpelledIDs(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	before := w.Seen(t, w.Bob)
	for _, o := range w.Operations {
		scope, _, object := o.Takes()
		for _, parameter := range o.Objects() {
			foreign := w.Bob.Ids[parameter]
			if !o.Rule.TakesSession() || !regexp.MustCompile(`^\d+$`).MatchString(foreign) || o.Line() == apptest.NotImplemented || foreign == w.Alice.Ids[parameter] {
				continue
			}
			who := []*apptest.Caller{w.Alice.Caller, w.Bearer(w.Alice.Keys["*"])}
			if object == parameter {
				who = append(who, w.Alice.APIKey(apptest.Entry(scope, w.Alice.Ids[object], apptest.ActionsOf(scope)...)).Caller)
			}
			last := fmt.Sprintf("%%%x", foreign[len(foreign)-1])
			for _, spelled := range []string{"0" + foreign, "%2B" + foreign, "+" + foreign, foreign[:len(foreign)-1] + last, foreign + "%20", "%20" + foreign, foreign + "%2F", foreign + ".0", foreign + "e0", "0x" + foreign, "%EF%BC%9" + foreign[len(foreign)-1:]} {
				ids := maps.Clone(w.Alice.Ids)
				ids[parameter] = "PLACEHOLDER"
				path := strings.Replace(w.Fill(o, ids), "PLACEHOLDER", spelled, 1)
				for _, c := range who {
					a := c.Try(o.Method, path, o.Good(w.Alice))
					if p := a.Check(t, path, o); p == nil || a.Status != 404 && a.Status != 403 && a.Status != 400 && a.Status != 405 {
						t.Errorf("%s: %d %.200s", path, a.Status, a.Body)
					}
				}
			}
		}
	}
	if after := w.Seen(t, w.Bob); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
}
