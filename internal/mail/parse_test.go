package mail

import (
	"errors"
	"strings"
	"testing"

	gomail "github.com/wneessen/go-mail"
)

func asPermanent(err error, target **PermanentError) bool { return errors.As(err, target) }

func TestParseSMTP(t *testing.T) {
	t.Parallel()
	const from = "?from=a@example.org"
	for address, want := range map[string]SMTP{
		"smtp://mail.example.org" + from:                         {host: "mail.example.org", port: 587, policy: gomail.TLSOpportunistic},
		"smtp://u:p%40ss@mail.example.org:25" + from:             {host: "mail.example.org", port: 25, user: "u", password: "p@ss", policy: gomail.TLSMandatory},
		"smtp://u:p@127.0.0.1:1025" + from:                       {host: "127.0.0.1", port: 1025, user: "u", password: "p", policy: gomail.TLSOpportunistic},
		"smtp://u:p@[2001:db8::1]/" + from + "&tls=none":         {host: "2001:db8::1", port: 587, user: "u", password: "p", policy: gomail.NoTLS},
		"smtps://mail.example.org" + from:                        {host: "mail.example.org", port: 465, implicit: true, policy: gomail.TLSOpportunistic},
		"smtp://mail.example.org" + from + "&tls=required":       {host: "mail.example.org", port: 587, policy: gomail.TLSMandatory},
		"smtp://mail.example.org?from=Certs+%3Ca@example.org%3E": {host: "mail.example.org", port: 587, policy: gomail.TLSOpportunistic},
	} {
		got, err := ParseSMTP(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if got.from.Address != "a@example.org" {
			t.Errorf("%s: from %v", address, got.from)
		}
		got.from = nil
		if *got != want {
			t.Errorf("%s: %+v, want %+v", address, *got, want)
		}
	}
	for _, address := range []string{
		"", "mail.example.org", "http://mail.example.org" + from, "smtp://mail.example.org", "smtp://:hunter2@" + from, "smtp://mail.example.org:0" + from,
		"smtp://mail.example.org:99999" + from, "smtp://u:hunter2@mail.example.org/path" + from, "smtp://u:hunter2@mail.example.org:x" + from,
		"smtp://u:hunter2@mail.example.org" + from + "&tls=maybe", "smtp://u:hunter2@mail.example.org" + from + "&form=x",
		"smtp://u:hunter2@mail.example.org" + from + "&ca-file=/does/not/exist", "smtp://u:hunter2@mail.example.org?from=%zz", "smtp://u:hunter2@mail.example.org" + from + "#x",
	} {
		if _, err := ParseSMTP(address); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
