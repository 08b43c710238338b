package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// The search at the end of every test finds what it must: each kind of secret
// is recorded, and one that was put into the database or into the log, in
// whatever form, is found there.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		var leaks, planted []string
		t.Run("program", func(t *testing.T) {
			c := settings(t, db)
			c.Registration = "open"
			p := start(t, c, app.Options{}, nil)
			p.leak = func(what string) { leaks = append(leaks, what) }
			me := p.person("me@example.org")
			me.enrol(publicID(1))
			key := me.apiKey(entry("devices", "*", "read"))
			me.imported()
			me.webhook()
			me.do("POST", "/auth/webauthn/register/options", nil, 200)
			p.anonymous().general(200, "register", "new@example.org", "password", password)
			eventually(t, 20*time.Second, "a code in the outbox", func() bool {
				return len(p.outbox()) > 0
			})
			code := p.outbox()[0]
			var kinds []string
			for value, what := range p.secrets.found {
				kinds = append(kinds, what)
				if what == "challenge" {
					planted = append(planted, hex.EncodeToString([]byte(value)))
				}
			}
			for _, kind := range []string{"cookie certharbor_session", "token", "access_token", "refresh_token", "registration_code", "device_code", "user_code", "challenge", "password", "secret", "private key"} {
				if !slices.Contains(kinds, kind) {
					t.Errorf("no %s was recorded", kind)
				}
			}
			cookie := strings.TrimPrefix(me.header.Get("Cookie"), p.config.SessionCookie+"=")
			raw, err := base64.RawURLEncoding.DecodeString(cookie)
			if err != nil {
				t.Fatal(err)
			}
			planted = append(planted, "the code "+code+" as it is", base64.StdEncoding.EncodeToString([]byte("x"+key.Token)))
			for i, text := range planted {
				p.execute(`INSERT INTO settings (name, value) VALUES ($1, $2)`, text, []byte{byte(i)})
			}
			p.execute(`INSERT INTO settings (name, value) VALUES ('raw', $1)`, append([]byte{0, 1}, raw...))
			_, _ = p.log.Write([]byte("a line with " + cookie + " and " + code + "\n"))
		})
		for _, want := range []string{
			"table settings holds a code in a mail", "table settings holds a token in base64", "table settings holds a challenge in hex",
			"table settings holds a cookie certharbor_session, decoded", "the log holds a cookie certharbor_session", "the log holds a code in a mail",
		} {
			if !slices.ContainsFunc(leaks, func(l string) bool { return strings.HasPrefix(l, want) }) {
				t.Errorf("not found: %s, but %q", want, leaks)
			}
		}
		if db.Path != "" && !slices.ContainsFunc(leaks, func(l string) bool { return strings.HasPrefix(l, "the files of the database holds") }) {
			t.Errorf("not found in the files: %q", leaks)
		}
		if len(leaks) > 12 {
			t.Errorf("more than was planted: %q", leaks)
		}
	})
}
