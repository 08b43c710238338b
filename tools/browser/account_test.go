package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/tools/browser"
)

const (
	email    = "ada@example.org"
	password = "Analytical-Engine-1843"
)

// server is certharbor as people run it: the program on a folder, with flags.
type server struct {
	t       *testing.T
	program string
	data    string
	url     string
}

func start(t *testing.T, flags ...string) *server {
	t.Helper()
	folder := t.TempDir()
	s := &server{t: t, program: filepath.Join(folder, "certharbor"), data: filepath.Join(folder, "data")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, "./cmd/certharbor")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	s.url = "http://" + address
	var log bytes.Buffer
	serve := exec.Command(s.program, append([]string{"serve", "--listen", address, "--data", s.data}, flags...)...) //nolint:noctx // ended by its signal
	serve.Stdout, serve.Stderr = &log, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			t.Errorf("serve ended with %v", err)
		}
		if t.Failed() {
			t.Logf("the server logged:\n%s", log.String())
		}
		if text := log.String(); strings.Contains(text, password) || strings.Contains(text, "ak_") {
			t.Error("the log holds a secret")
		}
	})
	s.await()
	return s
}

func (s *server) await() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, _ := s.get("/health", ""); status == http.StatusOK {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatal("the server did not get ready")
		case <-tick.C:
		}
	}
}

// user makes an active user with the command.
func (s *server) user(email, password string) {
	s.t.Helper()
	create := exec.CommandContext(s.t.Context(), s.program, "user", "create", "--email", email, "--password-stdin", "--data", s.data)
	create.Stdin = strings.NewReader(password)
	if out, err := create.CombinedOutput(); err != nil {
		s.t.Fatalf("user create: %v\n%s", err, out)
	}
}

// local is the server by the name at which passkeys work.
func (s *server) local() string { return strings.Replace(s.url, "127.0.0.1", "localhost", 1) }

// get asks the API with a key, or without one.
func (s *server) get(path, key string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return 0, ""
	}
	return answer.StatusCode, body.String()
}

// readme runs the command with which README.md uses a key, and returns what it
// prints.
func (s *server) readme(key string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	_, people, _ := strings.Cut(string(text), "## People")
	_, command, _ := strings.Cut(people, "```\n")
	command, _, _ = strings.Cut(command, "```")
	curl := exec.CommandContext(s.t.Context(), "bash", "-c", strings.ReplaceAll(command, "http://127.0.0.1:8080", s.url))
	curl.Env = append(os.Environ(), "KEY="+key)
	out, err := curl.Output()
	if err != nil || !strings.Contains(command, "$KEY") {
		s.t.Errorf("%s: %v", command, err)
	}
	return string(out)
}

// message waits until the page says what begins with text.
func message(p *browser.Page, text string) {
	p.Wait(fmt.Sprintf("document.getElementById('message').textContent.startsWith(%q)", text))
}

// code reads the code out of the one mail that the server wrote to a file.
func (s *server) code() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		mails, err := filepath.Glob(filepath.Join(s.data, "outbox", "*.eml"))
		if err != nil {
			s.t.Fatal(err)
		}
		if len(mails) == 1 {
			content, err := os.ReadFile(mails[0])
			if err != nil {
				s.t.Fatal(err)
			}
			code := regexp.MustCompile(`\b[0-9]{6}\b`).Find(content[bytes.Index(content, []byte("\r\n\r\n"))+1:])
			if code == nil {
				s.t.Fatalf("no code in %s", content)
			}
			return string(code)
		}
		select {
		case <-ctx.Done():
			s.t.Fatal("no mail was written")
		case <-tick.C:
		}
	}
}

// refuseOnce makes the server seem to want the password again at the next POST
// to the path, as it does 15 minutes after it was entered.
const refuseOnce = `(() => {
	const real = window.fetch;
	window.fetch = (path, init) => {
		if (path !== %q || init.method !== 'POST') return real(path, init);
		window.fetch = real;
		return Promise.resolve(new Response('{"error":{"code":5034,"key":"STEP_UP_REQUIRED","what":"again","params":{"acr":"aal1"}}}', { status: 403 }));
	};
})()`

// TestAccountPage: what a new user does first, in a real browser.
func TestAccountPage(t *testing.T) {
	t.Parallel()
	s := start(t, "--registration", "open")
	p := browser.Open(t)
	device := p.Authenticator()
	p.Go(s.url + "/account")
	p.Wait("location.hostname === 'localhost' && document.body.dataset.ready")

	// An account.
	p.Fill("#register [name=email]", email)
	p.Fill("#register [name=password]", password)
	p.Click("#register button")
	message(p, "A mail with a code is on its way")
	p.Fill("#activate [name=verify_code]", s.code())
	p.Click("#activate button")
	message(p, "Activated")

	// A wrong password, then the right one.
	p.Fill("#sign-in [name=email]", email)
	p.Fill("#sign-in [name=password]", password+"x")
	p.Click("#sign-in button")
	message(p, "The e-mail address or the password is wrong")
	p.Fill("#sign-in [name=password]", password)
	p.Click("#sign-in button")
	message(p, "Welcome")
	p.Wait("document.getElementById('who').textContent === 'ada@example.org (pwd; aal1)'")

	// The password again, when the server wants it.
	p.Eval(fmt.Sprintf(refuseOnce, "/apiv1/me/apikeys"))
	p.Fill("#add-key [name=name]", "Early")
	p.Click("#add-key button")
	p.Wait("document.getElementById('password-dialog').open")
	p.Fill("#password-again [name=password]", password)
	p.Click("#password-again button[value=go]")
	message(p, "The key was made")
	p.Click("#keys li button")
	message(p, "The key was revoked")

	// A passkey.
	p.Fill("#add-passkey [name=name]", "Test device")
	p.Click("#add-passkey button")
	message(p, "The passkey was added")
	p.Wait("document.querySelectorAll('#passkeys li').length === 1")
	held := device.Credentials()
	if len(held) != 1 || held[0].RPID != "localhost" || len(held[0].UserHandle) != 88 {
		t.Fatalf("the authenticator holds %+v", held)
	}
	// The same authenticator has one already. This needs a step-up first.
	p.Click("#add-passkey button")
	message(p, "This device has a passkey for the account already")
	p.Wait("document.getElementById('who').textContent.endsWith('; aal2)')")

	// Out, and in with it.
	p.Click("#sign-out")
	message(p, "Signed out")
	p.Wait("!document.getElementById('outside').hidden")
	p.Click("#passkey-sign-in")
	message(p, "Welcome")
	p.Wait("document.getElementById('who').textContent === 'ada@example.org (hwk, user, mfa; aal2)'")

	// A key, and what it may.
	p.Fill("#add-key [name=name]", "Script")
	p.Click("#add-key button")
	message(p, "The key was made")
	key, _ := p.Eval("document.getElementById('token').textContent").(string)
	if !strings.HasPrefix(key, "ak_") || len(key) != 46 {
		t.Fatalf("the key is %q", key)
	}
	if out := s.readme(key); !strings.Contains(out, `{"data":[],"meta":{"total":0,`) {
		t.Errorf("with the key: %s", out)
	}
	if status, body := s.get("/apiv1/me/devices", key); status != http.StatusForbidden {
		t.Errorf("beyond the key: %d %s", status, body)
	}
	p.Click("#keys li button")
	message(p, "The key was revoked")
	if status, body := s.get("/apiv1/me/certificates", key); status != http.StatusUnauthorized {
		t.Errorf("with the revoked key: %d %s", status, body)
	}

	// A user whom the device does not recognise stays outside.
	p.Click("#sign-out")
	message(p, "Signed out")
	device.Verifies(false)
	p.Click("#passkey-sign-in")
	message(p, "The passkey was not used")
	device.Verifies(true)

	// With the password alone the passkey cannot be removed; the page asks for it.
	p.Fill("#sign-in [name=email]", email)
	p.Fill("#sign-in [name=password]", password)
	p.Click("#sign-in button")
	message(p, "Welcome")
	p.Wait("document.getElementById('who').textContent.endsWith('aal1)')")
	p.Click("#passkeys li button")
	message(p, "The passkey was removed")
	p.Wait("document.getElementById('who').textContent.endsWith('aal2)')")
	p.Wait("document.querySelectorAll('#passkeys li').length === 0")
	if folder := os.Getenv("SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, "account.png"), p.Screenshot(), 0o600); err != nil {
			t.Error(err)
		}
	}
}
