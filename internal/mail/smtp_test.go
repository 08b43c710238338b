package mail

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/mail/mailtest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// transport makes the SMTP transport for a test server. options are appended.
func transport(t *testing.T, s *mailtest.Server, scheme string, options ...string) *SMTP {
	t.Helper()
	query := append([]string{"from=" + url.QueryEscape("CertHarbor <noreply@example.org>"), "ca-file=" + url.QueryEscape(s.CAFile)}, options...)
	smtp, err := ParseSMTP(scheme + "://" + mailtest.User + ":" + mailtest.Password + "@" + s.Address + "?" + strings.Join(query, "&"))
	if err != nil {
		t.Fatal(err)
	}
	return smtp
}

// TestMailArrives goes the whole way: transaction, job, STARTTLS, SASL, both
// parts.
func TestMailArrives(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		server := mailtest.Start(t, mailtest.Options{TLS: true, Auth: true})
		p := open(t, db, transport(t, server, "smtp", "tls=required"))
		if err := p.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := p.enqueue(t, "ada@example.org")
		m := server.Next(t)
		if m.From != "noreply@example.org" || m.To != "ada@example.org" || m.User != mailtest.User || !m.TLS {
			t.Errorf("%+v", m)
		}
		checkMessage(t, m.Data)
		deadline := time.Now().Add(2 * time.Minute)
		status, _, _, sealed := p.row(t, id)
		for status == "QUEUED" && time.Now().Before(deadline) {
			status, _, _, sealed = p.row(t, id)
		}
		if status != "SENT" || len(sealed) != 0 {
			t.Errorf("afterwards: %s, %d bytes of body", status, len(sealed))
		}
		if log := p.log.String(); strings.Contains(log, secretCode) || strings.Contains(log, mailtest.Password) {
			t.Errorf("the log holds a secret:\n%s", log)
		}
	})
}

func checkMessage(t *testing.T, data string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "Your code — Grüße" || m.Header.Get("Auto-Submitted") != "auto-generated" ||
		m.Header.Get("To") != "<ada@example.org>" || m.Header.Get("From") != `"CertHarbor" <noreply@example.org>` ||
		!strings.HasSuffix(m.Header.Get("Message-Id"), "@example.org>") {
		t.Errorf("headers %v, subject %q, %v", m.Header, subject, err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s, %v", kind, err)
	}
	reader := multipart.NewReader(m.Body, params["boundary"])
	for _, want := range []struct{ kind, text string }{
		{"text/plain", "for <you> & nobody else:\r\n\r\n    " + secretCode}, {"text/html", "for &lt;you&gt; &amp; nobody else:</p>"},
	} {
		part, err := reader.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if got := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n", "\r\n"); err != nil ||
			!strings.HasPrefix(part.Header.Get("Content-Type"), want.kind) || !strings.Contains(got, want.text) || !strings.Contains(got, secretCode) {
			t.Errorf("%s: %q, %v", part.Header.Get("Content-Type"), text, err)
		}
	}
}

// TestTemporaryFailureIsTriedAgain: 451 twice, then taken; the waits grow.
func TestTemporaryFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		server := mailtest.Start(t, mailtest.Options{Refuse: func(_ string, before int) error {
			if before < 2 {
				return mailtest.Refusal(451, "come back\x01 later")
			}
			return nil
		}})
		smtp := transport(t, server, "smtp")
		smtp.user = ""
		p := open(t, db, smtp)
		id := p.enqueue(t, "ada@example.org")
		for i, wait := range []string{"5s", "10s"} {
			err := p.send(t.Context(), id)
			status, failure, attempts, sealed := p.row(t, id)
			if err == nil || !strings.Contains(err.Error(), wait) || status != "QUEUED" || attempts != int64(i+1) ||
				!strings.Contains(failure, "come back") || strings.Contains(failure, "\x01") || bytes.Contains(sealed, []byte(secretCode)) || len(sealed) == 0 {
				t.Errorf("attempt %d: %v; %s %q after %d attempts", i+1, err, status, failure, attempts)
			}
		}
		if err := p.send(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		server.Next(t)
		if status, failure, attempts, sealed := p.row(t, id); status != "SENT" || failure != "" || attempts != 3 || len(sealed) != 0 {
			t.Errorf("%s %q after %d attempts", status, failure, attempts)
		}
		if err := p.send(t.Context(), id); err != nil || len(server.Received) != 0 {
			t.Errorf("a job that runs again sent it again, %v", err)
		}
	})
}

func TestPermanentFailureIsGivenUpAndAudited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		server := mailtest.Start(t, mailtest.Options{Refuse: func(string, int) error { return mailtest.Refusal(550, "no such box") }})
		smtp := transport(t, server, "smtp")
		smtp.user = ""
		p := open(t, db, smtp)
		id := p.enqueue(t, "nobody@example.org")
		if err := p.send(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if status, failure, _, sealed := p.row(t, id); status != "FAILED" || !strings.Contains(failure, "no such box") || len(sealed) != 0 {
			t.Errorf("%s %q", status, failure)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE user_id = 7 AND action = 'mail.failed' AND detail LIKE '%no such box%'"); n != 1 {
			t.Errorf("%d audit entries", n)
		}
		p.ms.Add(retention.Milliseconds())
		if err := p.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM mails"); n != 0 {
			t.Errorf("%d mails after the sweep", n)
		}
	})
}

// TestWithoutAServerItExpires: nothing listens; after its time the message is
// given up.
func TestWithoutAServerItExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		smtp, err := ParseSMTP("smtp://127.0.0.1:1?from=a@example.org")
		if err != nil {
			t.Fatal(err)
		}
		p := open(t, db, smtp)
		id := p.enqueue(t, "ada@example.org")
		for range 9 {
			if err := p.send(t.Context(), id); err == nil {
				t.Fatal("sent to nobody")
			}
		}
		if err := p.send(t.Context(), id); err == nil || !strings.Contains(err.Error(), "5m0s") {
			t.Errorf("the tenth wait: %v", err)
		}
		p.ms.Add((15 * time.Minute).Milliseconds())
		if err := p.send(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if status, failure, _, _ := p.row(t, id); status != "FAILED" || !strings.Contains(failure, "expired") {
			t.Errorf("%s %q", status, failure)
		}
	})
}

func TestNothingIsSentForARolledBackTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := open(t, db, nil)
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			if err := p.Enqueue(t.Context(), tx, Message{Kind: "x", To: "ada@example.org", TTL: time.Hour}); err != nil {
				t.Error(err)
			}
			return io.EOF
		})
		if err == nil || number(t, db, "SELECT COUNT(*) FROM mails") != 0 || number(t, db, "SELECT COUNT(*) FROM river_job") != 0 {
			t.Errorf("something is left: %v", err)
		}
	})
}

// TestTLS: what is sent in clear, and what is not.
func TestTLS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme  string
		server  mailtest.Options
		options []string
		anyCA   bool // the server's certificate is not known to the client
		user    bool
		sent    bool
		overTLS bool
	}{
		"required and offered":                 {scheme: "smtp", server: mailtest.Options{TLS: true, Auth: true}, options: []string{"tls=required"}, user: true, sent: true, overTLS: true},
		"required, not offered":                {scheme: "smtp", options: []string{"tls=required"}},
		"required, certificate of a stranger":  {scheme: "smtp", server: mailtest.Options{TLS: true}, options: []string{"tls=required"}, anyCA: true},
		"opportunistic and offered":            {scheme: "smtp", server: mailtest.Options{TLS: true}, options: []string{"tls=opportunistic"}, sent: true, overTLS: true},
		"opportunistic, not offered":           {scheme: "smtp", options: []string{"tls=opportunistic"}, sent: true},
		"none":                                 {scheme: "smtp", server: mailtest.Options{TLS: true}, options: []string{"tls=none"}, sent: true},
		"from the start":                       {scheme: "smtps", server: mailtest.Options{Implicit: true, Auth: true}, user: true, sent: true, overTLS: true},
		"from the start, a stranger":           {scheme: "smtps", server: mailtest.Options{Implicit: true}, anyCA: true},
		"from the start, but the server's not": {scheme: "smtps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mailtest.Start(t, c.server)
			smtp := transport(t, server, c.scheme, c.options...)
			if !c.user {
				smtp.user = ""
			}
			if c.anyCA {
				smtp.roots = nil
			}
			err := smtp.Send(t.Context(), &Envelope{ID: 1, To: "ada@example.org", CreatedAt: time.Now(), Subject: "s", Text: "t", HTML: "h"})
			if (err == nil) != c.sent {
				t.Fatalf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), mailtest.Password) {
				t.Errorf("the error holds the password: %v", err)
			}
			if c.sent {
				if m := server.Next(t); m.TLS != c.overTLS {
					t.Errorf("over TLS: %v", m.TLS)
				}
			} else if len(server.Received) != 0 {
				t.Error("sent all the same")
			}
		})
	}
}

// TestWrongPasswordIsTriedAgain: an operator can put it right meanwhile.
func TestWrongPasswordIsTriedAgain(t *testing.T) {
	t.Parallel()
	server := mailtest.Start(t, mailtest.Options{TLS: true, Auth: true})
	smtp := transport(t, server, "smtp")
	smtp.password = "Canary-wrong-SMTP-password"
	err := smtp.Send(t.Context(), &Envelope{ID: 1, To: "ada@example.org", CreatedAt: time.Now()})
	if permanent := (*PermanentError)(nil); err == nil || strings.Contains(err.Error(), smtp.password) || asPermanent(err, &permanent) {
		t.Errorf("%v", err)
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	p := open(t, dbtest.SQLite(t), nil)
	dir := filepath.Join(t.TempDir(), "outbox")
	p.Transport = &Folder{Path: dir, Log: p.Log}
	id := p.enqueue(t, "ada@example.org")
	if err := p.send(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0].Name(), "-reset-code.eml") {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil || !strings.Contains(string(text), secretCode) || !strings.Contains(string(text), "ada@example.org") {
		t.Errorf("%s, %v", text, err)
	}
	if log := p.log.String(); strings.Contains(log, secretCode) || !strings.Contains(log, files[0].Name()) || !strings.Contains(log, "ada@example.org") {
		t.Errorf("log: %s", log)
	}
	p.Transport = &Folder{Path: filepath.Join(dir, files[0].Name()), Log: p.Log} // a file is no folder
	if err := p.send(t.Context(), p.enqueue(t, "ada@example.org")); err == nil {
		t.Error("written into a file as if it were a folder")
	}
}
