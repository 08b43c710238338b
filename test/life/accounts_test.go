package life_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/mail/mailtest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// TestANewPersonByMail goes through registration, a forgotten password and a
// second registration, with a real mail server that fails at first.
func TestANewPersonByMail(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		server := mailtest.Start(t, mailtest.Options{TLS: true, Auth: true, Refuse: func(_ string, before int) error {
			if before == 0 {
				return mailtest.Refusal(451, "try again")
			}
			return nil
		}})
		c := apptest.Settings(t, db)
		c.Registration = "open"
		c.SMTPURL = "smtp://" + mailtest.User + ":" + mailtest.Password + "@" + server.Address + "?tls=required&from=noreply%40example.org&ca-file=" + url.QueryEscape(server.CAFile)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		p := apptest.Start(t, c, app.Options{}, nil)
		someone := p.Anonymous()
		const email = "new.person@example.org"
		someone.General(200, "register", email, "password", apptest.Password, "name", "newbie")
		first := apptest.ReadLetter(t, server.Next(t).Data)
		if first.To != "<"+email+">" || !strings.Contains(first.Text, "127.0.0.1") {
			t.Errorf("%+v", first)
		}
		someone.General(401, "login", email, "password", apptest.Password)
		someone.General(200, "activate-user", email, "verify_code", first.Code(t))
		signedIn := someone.General(200, "login", email, "password", apptest.Password)
		cookie, _, _ := strings.Cut(signedIn.Header.Get("Set-Cookie"), ";")
		person := &apptest.Caller{P: p, Header: map[string][]string{"Cookie": {cookie}}}
		person.Do("GET", "/auth/profile", nil, 200)

		someone.General(200, "register", email, "password", "Another-Password-99")
		if taken := apptest.ReadLetter(t, server.Next(t).Data); apptest.SixDigits.MatchString(taken.Text) || !strings.Contains(taken.Subject, "already") {
			t.Errorf("%+v", taken)
		}
		someone.General(200, "request-reset-password", email)
		reset := apptest.ReadLetter(t, server.Next(t).Data)
		const fresh = "Canary-Password-7c1f-second"
		someone.General(200, "reset-password", email, "verify_code", reset.Code(t), "new_password", fresh)
		person.Do("GET", "/auth/profile", nil, 401)
		if changed := apptest.ReadLetter(t, server.Next(t).Data); !strings.Contains(changed.Subject, "changed") {
			t.Errorf("%+v", changed)
		}
		someone.General(401, "login", email, "password", apptest.Password)
		someone.General(200, "login", email, "password", fresh)

		log, dump := p.Log.String(), apptest.Stored(t, db)
		for name, secret := range map[string]string{"activation code": first.Code(t), "reset code": reset.Code(t), "SMTP password": mailtest.Password} {
			if regexp.MustCompile(`\b` + secret + `\b`).MatchString(log) {
				t.Errorf("the %s is in the log", name)
			}
			if (apptest.Needle{Value: "Somebody, hopefully you"}).In(dump) || len(secret) > 6 && (apptest.Needle{Value: secret}).In(dump) {
				t.Errorf("the %s, or the mail with it, is in the database", name)
			}
		}
	})
}

// TestWithoutAMailServer: the mail is a file of the owner's alone, and the log
// names it.
func TestWithoutAMailServer(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		c := apptest.Settings(t, db)
		c.Registration = "open"
		p := apptest.Start(t, c, app.Options{}, nil)
		p.Anonymous().General(200, "register", "new@example.org", "password", apptest.Password)
		var found []string
		apptest.Eventually(t, 2*time.Minute, "a file in the outbox", func() bool {
			found, _ = filepath.Glob(filepath.Join(c.Data, "outbox", "*.eml"))
			return len(found) == 1
		})
		info, err := os.Stat(found[0])
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		data, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		code := apptest.ReadLetter(t, string(data)).Code(t)
		apptest.Eventually(t, 2*time.Minute, "the file in the log", func() bool { return strings.Contains(p.Log.String(), filepath.Base(found[0])) })
		if regexp.MustCompile(`\b` + code + `\b`).MatchString(p.Log.String()) {
			t.Error("the code is in the log")
		}
		p.Anonymous().General(200, "activate-user", "new@example.org", "verify_code", code)
	})
}

// TestSessionsEndOnEveryNode: what one node ends is dead on the other at once.
func TestSessionsEndOnEveryNode(t *testing.T) {
	t.Parallel()
	db := apptest.Engines["postgres"](t)
	c, second := apptest.Settings(t, db), apptest.Settings(t, db)
	c.MasterKeyFile = filepath.Join(c.Data, "master.key")
	second.MasterKeyFile = c.MasterKeyFile
	one := apptest.Start(t, c, app.Options{}, nil)
	other := apptest.Start(t, second, app.Options{}, nil)
	person := one.Person("ada@example.org")
	there := &apptest.Caller{P: other, Header: person.Header}
	there.Do("GET", "/apiv1/me/sessions", nil, 200)
	person.Do("DELETE", "/apiv1/me/sessions", nil, 204)
	there.Do("GET", "/apiv1/me/sessions", nil, 401)
	// Limits are shared as well.
	for i := range 10 {
		[]*apptest.Program{one, other}[i%2].Anonymous().General(401, "login", "ada@example.org", "password", "wrong")
	}
	for _, p := range []*apptest.Program{one, other} {
		if a := p.Anonymous().General(429, "login", "ada@example.org", "password", apptest.Password); a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	users, done, err := app.Users(t.Context(), one.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := users.CreateUser(t.Context(), identity.NewUser{Email: "bob@example.org", Password: apptest.Password}); err != nil {
		t.Fatal(err)
	}
	signedIn := other.Anonymous().General(200, "login", "bob@example.org", "password", apptest.Password)
	cookie, _, _ := strings.Cut(signedIn.Header.Get("Set-Cookie"), ";")
	bob := &apptest.Caller{P: one, Header: map[string][]string{"Cookie": {cookie}}}
	var profile struct{ User struct{ ID int64 } }
	bob.Do("GET", "/auth/profile", nil, 200).Data(t, &profile)
	if err := users.DisableUser(t.Context(), profile.User.ID); err != nil {
		t.Fatal(err)
	}
	bob.Do("GET", "/auth/profile", nil, 401)
}

// TestSetupLinkOfTheProgram: on an empty database alone; it makes the
// administrator once.
func TestSetupLinkOfTheProgram(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		c := apptest.Settings(t, db)
		p := apptest.Start(t, c, app.Options{}, nil)
		token, err := p.App.SetupToken(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		page := p.Anonymous().Do("GET", "/setup?token="+token, nil, 200)
		if bytes.Contains(page.Body, []byte(token)) {
			t.Error("the page shows the token")
		}
		body := map[string]string{"token": token, "email": "root@example.org", "password": apptest.Password}
		a := p.Anonymous().Do("POST", "/auth/setup", body, 200)
		var made struct {
			User struct{ Roles json.RawMessage }
		}
		if a.Data(t, &made); string(made.User.Roles) != `["admin"]` || a.Header.Get("Set-Cookie") == "" {
			t.Errorf("%s", a.Body)
		}
		p.Anonymous().Do("POST", "/auth/setup", body, 401)
		if token, err := p.App.SetupToken(t.Context()); token != "" || err != nil {
			t.Errorf("another link: %q, %v", token, err)
		}
		if strings.Contains(p.Log.String(), token) || (apptest.Needle{Value: token}).In(apptest.Stored(t, db)) {
			t.Error("the token is in the log or in the database")
		}
	})
}
