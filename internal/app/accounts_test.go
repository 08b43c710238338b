package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/mail/mailtest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// letter is a mail of the program, read as a mail program reads it.
type letter struct{ to, subject, text, html string }

func readLetter(t *testing.T, data string) letter {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	l := letter{to: m.Header.Get("To"), subject: m.Header.Get("Subject")}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, into := range []*string{&l.text, &l.html} {
		part, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		*into = string(content)
	}
	return l
}

var sixDigits = regexp.MustCompile(`\b[0-9]{6}\b`)

// code is the code of the letter, which both parts show.
func (l letter) code(t *testing.T) string {
	t.Helper()
	code := sixDigits.FindString(l.text)
	if code == "" || !strings.Contains(l.html, ">"+code+"<") {
		t.Fatalf("no code in %+v", l)
	}
	return code
}

// general calls POST /auth/general.
func (c *caller) general(want int, action, email string, more ...string) *answer {
	c.p.t.Helper()
	body := map[string]string{"action": action, "email": email}
	for i := 0; i < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	return c.do("POST", "/auth/general", body, want)
}

// TestANewPersonByMail goes through registration, a forgotten password and a
// second registration, with a real mail server that fails at first.
func TestANewPersonByMail(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		server := mailtest.Start(t, mailtest.Options{TLS: true, Auth: true, Refuse: func(_ string, before int) error {
			if before == 0 {
				return mailtest.Refusal(451, "try again")
			}
			return nil
		}})
		c := settings(t, db)
		c.Registration = "open"
		c.SMTPURL = "smtp://" + mailtest.User + ":" + mailtest.Password + "@" + server.Address + "?tls=required&from=noreply%40example.org&ca-file=" + url.QueryEscape(server.CAFile)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		p := start(t, c, app.Options{}, nil)
		someone := p.anonymous()
		const email = "new.person@example.org"
		someone.general(200, "register", email, "password", password, "name", "newbie")
		first := readLetter(t, server.Next(t).Data)
		if first.to != "<"+email+">" || !strings.Contains(first.text, "127.0.0.1") {
			t.Errorf("%+v", first)
		}
		someone.general(401, "login", email, "password", password)
		someone.general(200, "activate-user", email, "verify_code", first.code(t))
		signedIn := someone.general(200, "login", email, "password", password)
		cookie, _, _ := strings.Cut(signedIn.header.Get("Set-Cookie"), ";")
		person := &caller{p: p, header: map[string][]string{"Cookie": {cookie}}}
		person.do("GET", "/auth/profile", nil, 200)

		someone.general(200, "register", email, "password", "Another-Password-99")
		if taken := readLetter(t, server.Next(t).Data); sixDigits.MatchString(taken.text) || !strings.Contains(taken.subject, "already") {
			t.Errorf("%+v", taken)
		}
		someone.general(200, "request-reset-password", email)
		reset := readLetter(t, server.Next(t).Data)
		const fresh = "Canary-Password-7c1f-second"
		someone.general(200, "reset-password", email, "verify_code", reset.code(t), "new_password", fresh)
		person.do("GET", "/auth/profile", nil, 401)
		if changed := readLetter(t, server.Next(t).Data); !strings.Contains(changed.subject, "changed") {
			t.Errorf("%+v", changed)
		}
		someone.general(401, "login", email, "password", password)
		someone.general(200, "login", email, "password", fresh)

		log, dump := p.log.String(), stored(t, db)
		for name, secret := range map[string]string{"activation code": first.code(t), "reset code": reset.code(t), "SMTP password": mailtest.Password} {
			if regexp.MustCompile(`\b` + secret + `\b`).MatchString(log) {
				t.Errorf("the %s is in the log", name)
			}
			if (needle{value: "Somebody, hopefully you"}).in(dump) || len(secret) > 6 && (needle{value: secret}).in(dump) {
				t.Errorf("the %s, or the mail with it, is in the database", name)
			}
		}
	})
}

// TestWithoutAMailServer: the mail is a file of the owner's alone, and the log
// names it.
func TestWithoutAMailServer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		c := settings(t, db)
		c.Registration = "open"
		p := start(t, c, app.Options{}, nil)
		p.anonymous().general(200, "register", "new@example.org", "password", password)
		var found []string
		eventually(t, 20*time.Second, "a file in the outbox", func() bool {
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
		code := readLetter(t, string(data)).code(t)
		eventually(t, 20*time.Second, "the file in the log", func() bool { return strings.Contains(p.log.String(), filepath.Base(found[0])) })
		if regexp.MustCompile(`\b` + code + `\b`).MatchString(p.log.String()) {
			t.Error("the code is in the log")
		}
		p.anonymous().general(200, "activate-user", "new@example.org", "verify_code", code)
	})
}

// TestSessionsEndOnEveryNode: what one node ends is dead on the other at once.
func TestSessionsEndOnEveryNode(t *testing.T) {
	t.Parallel()
	db := engines["postgres"](t)
	c, second := settings(t, db), settings(t, db)
	c.MasterKeyFile = filepath.Join(c.Data, "master.key")
	second.MasterKeyFile = c.MasterKeyFile
	one := start(t, c, app.Options{}, nil)
	other := start(t, second, app.Options{}, nil)
	person := one.person("ada@example.org")
	there := &caller{p: other, header: person.header}
	there.do("GET", "/apiv1/me/sessions", nil, 200)
	person.do("DELETE", "/apiv1/me/sessions", nil, 204)
	there.do("GET", "/apiv1/me/sessions", nil, 401)
	// Limits are shared as well.
	for i := range 10 {
		[]*program{one, other}[i%2].anonymous().general(401, "login", "ada@example.org", "password", "wrong")
	}
	for _, p := range []*program{one, other} {
		if a := p.anonymous().general(429, "login", "ada@example.org", "password", password); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	users, done, err := app.Users(t.Context(), one.config)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := users.CreateUser(t.Context(), identity.NewUser{Email: "bob@example.org", Password: password}); err != nil {
		t.Fatal(err)
	}
	signedIn := other.anonymous().general(200, "login", "bob@example.org", "password", password)
	cookie, _, _ := strings.Cut(signedIn.header.Get("Set-Cookie"), ";")
	bob := &caller{p: one, header: map[string][]string{"Cookie": {cookie}}}
	var profile struct{ User struct{ ID int64 } }
	bob.do("GET", "/auth/profile", nil, 200).data(t, &profile)
	if err := users.DisableUser(t.Context(), profile.User.ID); err != nil {
		t.Fatal(err)
	}
	bob.do("GET", "/auth/profile", nil, 401)
}

// TestSetupLinkOfTheProgram: on an empty database alone; it makes the
// administrator once.
func TestSetupLinkOfTheProgram(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		c := settings(t, db)
		p := start(t, c, app.Options{}, nil)
		token, err := p.app.SetupToken(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		page := p.anonymous().do("GET", "/setup?token="+token, nil, 200)
		if bytes.Contains(page.body, []byte(token)) {
			t.Error("the page shows the token")
		}
		body := map[string]string{"token": token, "email": "root@example.org", "password": password}
		a := p.anonymous().do("POST", "/auth/setup", body, 200)
		var made struct {
			User struct{ Roles json.RawMessage }
		}
		if a.data(t, &made); string(made.User.Roles) != `["admin"]` || a.header.Get("Set-Cookie") == "" {
			t.Errorf("%s", a.body)
		}
		p.anonymous().do("POST", "/auth/setup", body, 401)
		if token, err := p.app.SetupToken(t.Context()); token != "" || err != nil {
			t.Errorf("another link: %q, %v", token, err)
		}
		if strings.Contains(p.log.String(), token) || (needle{value: token}).in(stored(t, db)) {
			t.Error("the token is in the log or in the database")
		}
	})
}
