package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"certharbor.dev/certharbor/tools/browser"
)

// deviceLogin calls POST /auth/device as a device does.
func (s *server) deviceLogin(body map[string]any) (answer struct {
	DeviceCode  string `json:"device_code"`
	URIComplete string `json:"verification_uri_complete"`
	UserCode    string `json:"user_code"`
	Status      string
},
) {
	s.t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/auth/device", bytes.NewReader(content))
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	envelope := struct{ Data any }{&answer}
	if err := json.NewDecoder(got.Body).Decode(&envelope); err != nil || got.StatusCode != http.StatusOK {
		s.t.Fatalf("%d %v", got.StatusCode, err)
	}
	return answer
}

// TestDevicePage: the link that a device shows leads through the sign-in to
// what waits behind it; only the button decides.
func TestDevicePage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user(email, password)
	p := browser.Open(t)
	p.Authenticator()
	first := s.deviceLogin(map[string]any{"action": "device_start", "name": "web-1 <b>", "platform": "linux"})
	p.Go(first.URIComplete)
	p.Wait("location.pathname === '/account' && document.body.dataset.ready")
	p.Fill("#sign-in [name=email]", email)
	p.Fill("#sign-in [name=password]", password)
	p.Click("#sign-in button")
	p.Wait("location.pathname === '/device' && document.body.dataset.ready")
	p.Wait("!document.getElementById('shown').hidden")
	for id, want := range map[string]string{"code": first.UserCode, "name": "web-1 <b>, linux", "ip": "127.0.0.1", "who": "You are " + email + "."} {
		if got := p.Eval("document.getElementById('" + id + "').textContent"); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if folder := os.Getenv("SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, "device.png"), p.Screenshot(), 0o600); err != nil {
			t.Error(err)
		}
	}
	if a := s.deviceLogin(map[string]any{"action": "device_poll", "device_code": first.DeviceCode}); a.Status != "authorization_pending" {
		t.Errorf("before the decision: %s", a.Status)
	}
	// A sign-in that is no longer fresh: the page asks for the password and goes on.
	p.Eval(fmt.Sprintf(refuseOnce, "/auth/device"))
	p.Click("#approve")
	p.Wait("document.getElementById('password-dialog').open")
	p.Fill("#password-again [name=password]", password)
	p.Click("#password-again button[value=go]")
	message(p, "Approved")
	if a := s.deviceLogin(map[string]any{"action": "device_poll", "device_code": first.DeviceCode}); a.Status != "ready" {
		t.Errorf("after the approval: %s", a.Status)
	}

	// By hand, and refused.
	second := s.deviceLogin(map[string]any{"action": "device_start"})
	p.Go("about:blank")
	p.Go(s.local() + "/device")
	p.Wait("document.body.dataset.ready && document.getElementById('shown').hidden")
	p.Fill("#ask [name=user_code]", "BBBB-BBBB")
	p.Click("#ask button")
	message(p, "user_code: is unknown")
	p.Fill("#ask [name=user_code]", second.UserCode[:4]+second.UserCode[5:])
	p.Click("#ask button")
	p.Wait("!document.getElementById('shown').hidden")
	p.Click("#deny")
	message(p, "Denied")
	if a := s.deviceLogin(map[string]any{"action": "device_poll", "device_code": second.DeviceCode}); a.Status != "access_denied" {
		t.Errorf("after the refusal: %s", a.Status)
	}

	// With a passkey the password is not enough: the page asks for it and goes on.
	p.Go(s.local() + "/account")
	p.Wait("document.body.dataset.ready")
	p.Fill("#add-passkey [name=name]", "Test device")
	p.Click("#add-passkey button")
	message(p, "The passkey was added")
	third := s.deviceLogin(map[string]any{"action": "device_start"})
	p.Go(s.local() + "/device?user_code=" + third.UserCode)
	p.Wait("document.body.dataset.ready && !document.getElementById('shown').hidden")
	p.Click("#approve")
	message(p, "Approved")
}
