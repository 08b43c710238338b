package threats_test

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// The search at the end of every test finds what it must: each kind of secret
// is recorded, and one that was put into the database or into the log, in
// whatever form, is found there.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		var leaks, planted []string
		t.Run("program", func(t *testing.T) {
			c := apptest.Settings(t, db)
			c.Registration = "open"
			p := apptest.Start(t, c, app.Options{}, nil)
			p.Leak = func(what string) { leaks = append(leaks, what) }
			me := p.Person("me@example.org")
			me.Enrol(apptest.PublicID(1))
			key := me.APIKey(apptest.Entry("devices", "*", "read"))
			me.Imported()
			me.Webhook()
			me.Do("POST", "/auth/webauthn/register/options", nil, 200)
			p.Anonymous().General(200, "register", "new@example.org", "password", apptest.Password)
			apptest.Eventually(t, 2*time.Minute, "a code in the outbox", func() bool {
				return len(p.Outbox()) > 0
			})
			code := p.Outbox()[0]
			var kinds []string
			for value, what := range p.Secrets.Found {
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
			cookie := strings.TrimPrefix(me.Header.Get("Cookie"), p.Config.SessionCookie+"=")
			raw, err := base64.RawURLEncoding.DecodeString(cookie)
			if err != nil {
				t.Fatal(err)
			}
			planted = append(planted, "the code "+code+" as it is", base64.StdEncoding.EncodeToString([]byte("x"+key.Token)))
			for i, text := range planted {
				p.Execute(`INSERT INTO settings (name, value) VALUES ($1, $2)`, text, []byte{byte(i)})
			}
			p.Execute(`INSERT INTO settings (name, value) VALUES ('raw', $1)`, append([]byte{0, 1}, raw...))
			_, _ = p.Log.Write([]byte("a line with " + cookie + " and " + code + "\n"))
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
