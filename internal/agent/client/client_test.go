package client_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/material"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

const publicID = "00112233-4455-6677-8899-AABBCCDDEEFF"

type fixture struct {
	server *wiretest.Server
	clock  *wiretest.Clock
	key    material.DeviceKey
	device *client.Device
	saved  []client.Session // with a new pair
	named  []client.Session // before their refresh
}

// save notes a session as the agent would store it.
func (f *fixture) save(s client.Session) error {
	if s.RequestID != "" {
		f.named = append(f.named, s)
		return nil
	}
	f.saved = append(f.saved, s)
	return nil
}

// register gives a device that is registered at s.
func register(t *testing.T, s *wiretest.Server) *fixture {
	t.Helper()
	c, err := client.New(s.URL, client.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := material.NewDeviceKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{server: s, clock: &wiretest.Clock{}, key: key}
	done, err := c.RegisterWithKey(t.Context(), wiretest.APIKey, client.Registration{DevicePublicID: publicID, DevPK: key.PublicB64()})
	if err != nil {
		t.Fatal(err)
	}
	f.device = &client.Device{Client: c, Clock: f.clock, Log: slog.New(slog.DiscardHandler), Patient: true, Save: f.save}
	f.device.Use(client.NewSession(done.Session, f.clock.Now()))
	return f
}

func TestRefreshesOneMinuteBeforeExpiry(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	for _, step := range []struct {
		sleep time.Duration
		want  int
	}{{0, 0}, {59*time.Minute - 5*time.Second, 0}, {10 * time.Second, 1}, {time.Minute, 1}} {
		if err := f.clock.Sleep(t.Context(), step.sleep); err != nil {
			t.Fatal(err)
		}
		if _, err := f.device.InstallConfig(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(f.saved) != step.want {
			t.Errorf("after %v more: %d refreshes, want %d", step.sleep, len(f.saved), step.want)
		}
	}
}

func TestRefusedTokenIsRefreshedOnce(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	f.server.Revoke()
	if _, err := f.device.InstallConfig(t.Context()); err != nil || len(f.saved) != 1 {
		t.Fatalf("%v, %d refreshes", err, len(f.saved))
	}
	f.server.Fail("install-config", 10, wiretest.Status(403, 5022, 0, ""))
	if _, err := f.device.InstallConfig(t.Context()); !client.HasStatus(err, 403) || len(f.saved) != 2 {
		t.Errorf("%v, %d refreshes", err, len(f.saved))
	}
	if n := f.server.Count("install-config"); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// A crash after rotation must find the new refresh token stored: nothing may
// use the new access token before.
func TestRotatedSessionIsSavedBeforeUse(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	full := errors.New("disk full")
	fails := 1
	f.device.Save = func(s client.Session) error {
		if n := f.server.Count("install-config"); n != 1 {
			t.Errorf("%d requests before the session was stored", n)
		}
		if s.RequestID == "" && fails > 0 {
			fails--
			return full
		}
		return f.save(s)
	}
	f.server.Revoke()
	if _, err := f.device.InstallConfig(t.Context()); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	// The pair is not lost: it is stored and used as soon as the disk allows.
	if _, err := f.device.InstallConfig(t.Context()); err != nil || len(f.saved) != 1 {
		t.Fatalf("%v, saved %d", err, len(f.saved))
	}
	if n := f.server.Count("/auth/refresh"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

func TestRefreshGivesUp(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture){
		"used before":       func(f *fixture) { f.server.Fail("/auth/refresh", 1, wiretest.Status(401, 10003, 0, "")) },
		"no longer valid (": func(f *fixture) { f.server.Forget() },
		"answered 403":      func(f *fixture) { f.server.Fail("/auth/refresh", 1, wiretest.Status(403, 5022, 0, "")) },
	}
	for want, prepare := range tests {
		f := register(t, wiretest.New(t))
		f.server.Revoke()
		prepare(f)
		_, err := f.device.InstallConfig(t.Context())
		if !errors.Is(err, client.ErrLoginRequired) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "certharbor-agent login") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRefreshWaitsForTheServer(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	f.server.Revoke()
	f.server.Fail("/auth/refresh", 1, wiretest.Status(500, 5017, 0, ""))
	f.server.Fail("/auth/refresh", 1, wiretest.Status(429, 5013, 77, ""))
	f.server.Fail("/auth/refresh", 1, wiretest.Hangup)
	f.server.Fail("/auth/refresh", 5, wiretest.Status(503, 5017, 0, ""))
	if _, err := f.device.InstallConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, d := range f.clock.Slept() {
		got = append(got, int(d.Seconds()))
	}
	if want := []int{5, 77, 20, 40, 80, 160, 300, 300}; !slices.Equal(got, want) {
		t.Errorf("waited %v, want %v", got, want)
	}
}

func TestImpatientDeviceDoesNotWaitForALostServer(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	f.device.Patient = false
	f.server.Revoke()
	f.server.Fail("/auth/refresh", 1, wiretest.Hangup)
	var none *client.Unavailable
	if _, err := f.device.InstallConfig(t.Context()); !errors.As(err, &none) || len(f.clock.Slept()) != 0 {
		t.Errorf("%v after %v", err, f.clock.Slept())
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	ctx := t.Context()
	u, err := f.device.Updates(ctx, "", 0)
	if err != nil || u.Cursor != "0-0" || len(u.Signals) != 0 || u.Interval != time.Second {
		t.Fatalf("fresh stream: %+v, %v", u, err)
	}
	for range 150 {
		f.server.Signal("cert.updated", map[string]any{"cert_id": 5})
	}
	first, err := f.device.Updates(ctx, u.Cursor, 0)
	if err != nil || len(first.Signals) != 100 {
		t.Fatalf("first batch: %v", err)
	}
	second, err := f.device.Updates(ctx, first.Cursor, 0)
	if err != nil || len(second.Signals) != 50 {
		t.Fatalf("second batch: %v", err)
	}
	f.server.Signal("cert.updated", nil)
	f.server.Trim()
	if _, err := f.device.Updates(ctx, first.Cursor, 0); !errors.Is(err, client.ErrResync) {
		t.Errorf("trimmed: %v", err)
	}
	if _, err := f.device.Updates(ctx, "not-a-cursor", 0); !errors.Is(err, client.ErrResync) {
		t.Errorf("malformed: %v", err)
	}
	if u, err := f.device.Updates(ctx, "", 0); err != nil || len(u.Signals) != 0 {
		t.Errorf("without cursor: %+v, %v", u, err)
	}
}

func TestLongPollWakesOnSignal(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	got := make(chan *client.Updates, 1)
	go func() {
		u, err := f.device.Updates(t.Context(), "", 25*time.Second)
		if err != nil {
			t.Error(err)
		}
		got <- u
	}()
	f.server.Await(t, "/updates", 1)
	f.server.Signal("cert.updated", map[string]any{"cert_id": 5})
	if u := <-got; u == nil || len(u.Signals) != 1 {
		t.Errorf("got %+v", u)
	}
}

func TestUpdatesRefusesWholeBatch(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	for _, body := range []string{
		`{"data":{"signals":[]}}`, `{"data":{"cursor":7,"signals":[]}}`, `{"data":{"cursor":"1-1","signals":[{"ts_ms":1}]}}`,
		`{"data":{"cursor":"1-1","signals":[{"type":"a","ts_ms":"1"}]}}`, `{"data":{"cursor":"1-1","signals":[{"type":"a"}]}}`,
		`{}`, `[]`, `<html>`, ``,
	} {
		f.server.Fail("/updates", 1, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		var none *client.Unavailable
		if u, err := f.device.Updates(t.Context(), "", 0); !errors.As(err, &none) {
			t.Errorf("%s: %+v, %v", body, u, err)
		}
	}
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	serial := f.server.Issue(5, "a.test")
	for _, policy := range []string{"HYBRID", "DEVICE_REQUIRED", "MASTER_ONLY"} {
		f.server.SetPolicy(5, policy)
		rec, err := f.device.Certificate(t.Context(), 5, true)
		if err != nil {
			t.Fatalf("%s: %v", policy, err)
		}
		o, err := material.Certificate(f.key, *rec, "")
		if err != nil || o.Serial != serial || o.Files["private.key"].Data == nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
	f.server.SetPolicy(5, "MASTER_ONLY_FORBIDDEN")
	if _, err := f.device.Certificate(t.Context(), 5, true); !client.HasKey(err, "EXPORT_FORBIDDEN") || len(f.saved) != 0 {
		t.Errorf("forbidden: %v, %d refreshes", err, len(f.saved))
	}
	if rec, err := f.device.Certificate(t.Context(), 5, false); err != nil || rec.HasKey() {
		t.Errorf("public part: %v", err)
	}
	f.server.SetPolicy(5, "HYBRID")
	f.server.SetPending(5, true)
	if _, err := f.device.Certificate(t.Context(), 5, true); !client.Pending(err) {
		t.Errorf("pending: %v", err)
	}
	if _, err := f.device.Certificate(t.Context(), 6, true); !client.HasStatus(err, 404) || client.Pending(err) {
		t.Errorf("absent: %v", err)
	}
}

// WRAP_PENDING counts only as status 409 with the literal in the body.
func TestPending(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	tests := []struct {
		status int
		body   string
		want   bool
	}{
		{409, `{"error":{"code":1,"key":"WRAP_PENDING","what":"wait"}}`, true},
		{409, `{"error":{"code":1,"what":"the wrap is pending"}}`, false},
		{409, `{"error":{"code":1,"key":"NOT_ISSUED"}}`, false},
		{404, `{"error":{"code":1,"key":"WRAP_PENDING"}}`, false},
		{503, ``, true},
	}
	for _, tt := range tests {
		f.server.Fail("/cas/1/bundle", 1, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		})
		if _, err := f.device.CA(t.Context(), 1); client.Pending(err) != tt.want {
			t.Errorf("%d %s: %v", tt.status, tt.body, err)
		}
	}
}

func TestPrivateServerCertificate(t *testing.T) {
	t.Parallel()
	s := wiretest.NewTLS(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, s.CAFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, ok := range map[string]bool{"": false, caFile: true} {
		c, err := client.New(s.URL, client.Options{CAFile: file})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.StartFlow(t.Context(), client.Registration{Name: "box", Platform: "linux"}); (err == nil) != ok {
			t.Errorf("ca file %q: %v", file, err)
		}
	}
	if _, err := client.New(s.URL, client.Options{CAFile: "/does/not/exist"}); err == nil {
		t.Error("missing ca file accepted")
	}
	for _, bad := range []string{"", "certs.example.com", "ftp://x", "https://", "https://u:p@x", "https://x?a=b"} {
		if _, err := client.New(bad, client.Options{}); err == nil {
			t.Errorf("server %q accepted", bad)
		}
	}
}

// Without encryption a server is asked on this machine alone, unless told so.
func TestPlainHTTPStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	for server, ok := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://127.9.9.9": true, "http://[::1]:8080/": true, "http://localhost:8080": true, "http://LOCALHOST": true,
		"HTTP://127.0.0.1": true, "https://certs.example.com": true, "https://192.0.2.1": true,
		"http://certs.example.com": false, "HTTP://certs.example.com": false, "http://192.0.2.1:8080": false, "http://10.0.0.1": false,
		"http://[2001:db8::1]": false, "http://0.0.0.0:8080": false, "http://[::]": false, "http://localhost.example.com": false, "http://127.0.0.1.example.com": false,
		"http://localhost.": false, "http://2130706433": false, "http://127.1": false, "http://[::ffff:192.0.2.1]": false, "http://[fe80::1%25lo]": false,
	} {
		_, err := client.New(server, client.Options{})
		if (err == nil) != ok || err != nil && (!errors.Is(err, client.ErrInsecure) || !strings.Contains(err.Error(), "--insecure")) {
			t.Errorf("%s: %v", server, err)
		}
		if _, err := client.New(server, client.Options{Insecure: true}); err != nil {
			t.Errorf("%s, insecure: %v", server, err)
		}
	}
}

// A redirect never leads off https.
func TestRedirectsToPlainHTTPAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{true, false} {
		for _, to := range []string{"http", "https"} {
			var asked atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				http.Redirect(w, r, to+"://"+r.Host+"/again", http.StatusTemporaryRedirect)
			}))
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
			defer s.Close()
			ca := filepath.Join(t.TempDir(), "ca.pem")
			opt := client.Options{Insecure: true}
			if secure {
				if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
				opt.CAFile = ca
			}
			c, err := client.New(s.URL, opt)
			if err != nil {
				t.Fatal(err)
			}
			d := &client.Device{Client: c, Clock: &wiretest.Clock{}, Log: slog.New(slog.DiscardHandler)}
			d.Use(client.Session{AccessToken: "token", ExpiresAtMS: time.Now().Add(time.Hour).UnixMilli()})
			if _, err := d.InstallConfig(t.Context()); err == nil || to == "http" && !strings.Contains(err.Error(), "is not followed") {
				t.Errorf("secure %v to %s: %v", secure, to, err)
			}
			if n := asked.Load(); to == "http" && n != 1 {
				t.Errorf("secure %v to %s: asked %d times", secure, to, n)
			}
		}
	}
}

// What a server or a named file sends is read up to a bound.
func TestWhatIsReadIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := client.New("https://certs.example.com", client.Options{CAFile: "/dev/zero"}); err == nil || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("endless --ca-file: %v", err)
	}
	f := register(t, wiretest.New(t))
	f.server.Fail("self", 1, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":"`)) //nolint:errcheck // the reader hangs up
		for range 5 << 10 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<10)) //nolint:errcheck // the reader hangs up
		}
	})
	if _, err := f.device.InstallConfig(t.Context()); err == nil || !strings.Contains(err.Error(), "4 MiB") {
		t.Errorf("endless answer: %v", err)
	}
}

// A token must not travel to another host, nor a POST be repeated elsewhere.
func TestRedirectsElsewhereAreNotFollowed(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached <- r.Header.Get("Authorization")
	}))
	defer elsewhere.Close()
	f := register(t, wiretest.New(t))
	f.server.Fail("self", 2, http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP)
	if _, err := f.device.InstallConfig(t.Context()); err == nil {
		t.Error("GET followed")
	}
	if err := f.device.Notify(t.Context(), map[string]string{"type": "x"}); err == nil {
		t.Error("POST followed")
	}
	select {
	case <-reached:
		t.Error("the other host was called")
	default:
	}
}

func TestClosedContextEndsRefresh(t *testing.T) {
	t.Parallel()
	f := register(t, wiretest.New(t))
	f.server.Revoke()
	f.server.Fail("/auth/refresh", 1000, wiretest.Status(503, 5017, 0, ""))
	ctx, cancel := context.WithCancel(t.Context())
	f.clock.OnSleep = func(time.Duration) { cancel() }
	if _, err := f.device.InstallConfig(ctx); !client.HasStatus(err, 503) {
		t.Errorf("got %v", err)
	}
}
