package apptest

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
	"testing"
)

// letter is a mail of the program, read as a mail program reads it.
type letter struct{ To, Subject, Text, html string }

func ReadLetter(t *testing.T, data string) letter {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	l := letter{To: m.Header.Get("To"), Subject: m.Header.Get("Subject")}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, into := range []*string{&l.Text, &l.html} {
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

var SixDigits = regexp.MustCompile(`\b[0-9]{6}\b`)

// Code is the code of the letter, which both parts show.
func (l letter) Code(t *testing.T) string {
	t.Helper()
	code := SixDigits.FindString(l.Text)
	if code == "" || !strings.Contains(l.html, ">"+code+"<") {
		t.Fatalf("no code in %+v", l)
	}
	return code
}

// General calls POST /auth/general.
func (c *Caller) General(want int, action, email string, more ...string) *Answer {
	c.P.T.Helper()
	body := map[string]string{"action": action, "email": email}
	for i := 0; i < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	return c.Do("POST", "/auth/general", body, want)
}
