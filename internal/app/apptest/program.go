package apptest

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const Password = "Canary-Password-7c1f" // searched for in every log

// Program is the whole server on a database of its own, behind a real socket.
type Program struct {
	*httptest.Server
	T       *testing.T
	App     *app.App
	Config  app.Config
	Log     *logBuffer
	Secrets *recorder         // that went in and out, looked for at the end
	Leak    func(what string) // is told where one was found
}

// logBuffer keeps what was logged, for the search for secrets.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Engines are the databases that whole-program tests run on.
var Engines = map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig}

func OnEach(t *testing.T, test func(t *testing.T, db sqldb.Config)) {
	t.Helper()
	for name, config := range Engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, config(t))
		})
	}
}

// Settings are those of a test server: everything on loopback.
func Settings(t *testing.T, db sqldb.Config) app.Config {
	t.Helper()
	c := app.Config{
		Listen: "127.0.0.1:8080", Data: t.TempDir(), DB: db.URL, SessionCookie: "certharbor_session",
		WebhookAllowCIDRs: []string{"127.0.0.0/8"}, ACMEAllowCIDRs: []string{"127.0.0.0/8"}, LogLevel: "debug", LogFormat: "json", NamePolicy: "first-come", DNSResolvers: []string{"127.0.0.1:9"},
	}
	if db.Path != "" {
		c.Data = strings.TrimSuffix(db.Path, "/certharbor.db")
	}
	return c
}

// Start runs the program. listener is where it answers, nil: any free port.
func Start(t *testing.T, c app.Config, o app.Options, listener net.Listener) *Program {
	t.Helper()
	log := &logBuffer{}
	o.Version, o.Log = "test", slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, err := app.New(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	secrets := &recorder{Found: map[string]string{}, Given: true}
	p := &Program{Server: httptest.NewUnstartedServer(secrets.wrap(a)), T: t, App: a, Config: c, Log: log, Secrets: secrets, Leak: func(what string) { t.Error(what) }}
	if listener != nil {
		_ = p.Listener.Close()
		p.Listener = listener
	}
	p.Start()
	t.Cleanup(func() {
		a.Release()
		p.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
		files := p.databaseFiles()
		a.Close()
		p.checkSecrets(files)
		if strings.Contains(log.String(), Password) {
			t.Error("the log holds the password")
		}
		if t.Failed() {
			t.Logf("log of the server:\n%s", log)
		}
	})
	return p
}

// Answer is one answer of the server.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Data decodes the data member.
func (a *Answer) Data(t *testing.T, v any) {
	t.Helper()
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &envelope); err != nil {
		t.Fatalf("%v in %s", err, a.Body)
	}
	if err := json.Unmarshal(envelope.Data, v); err != nil {
		t.Fatalf("%v in %s", err, a.Body)
	}
}

// Caller makes requests with one credential.
type Caller struct {
	P      *Program
	Header http.Header
	UserID int64
}

func (p *Program) Anonymous() *Caller { return &Caller{P: p, Header: http.Header{}} }

// Bearer makes requests with a bearer token.
func (p *Program) Bearer(token string) *Caller {
	return &Caller{P: p, Header: http.Header{"Authorization": {"Bearer " + token}}}
}

// Person makes a user and signs in.
func (p *Program) Person(email string) *Caller {
	p.T.Helper()
	users, done, err := app.Users(p.T.Context(), p.Config)
	if err != nil {
		p.T.Fatal(err)
	}
	defer done()
	if _, err := users.CreateUser(p.T.Context(), identity.NewUser{Email: email, Password: Password}); err != nil {
		p.T.Fatal(err)
	}
	a := p.Anonymous().Do("POST", "/auth/general", map[string]any{"action": "login", "email": email, "password": Password}, 200)
	var login struct{ User struct{ ID int64 } }
	a.Data(p.T, &login)
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return &Caller{P: p, Header: http.Header{"Cookie": {cookie}}, UserID: login.User.ID}
}

// Do sends a request and fails the test when the status is not want.
func (c *Caller) Do(method, path string, body any, want int) *Answer {
	c.P.T.Helper()
	a := c.Try(method, path, body)
	if a.Status != want {
		c.P.T.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, want)
	}
	return a
}

// Try sends a request. A string body is sent as it is.
func (c *Caller) Try(method, path string, body any) *Answer {
	c.P.T.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			c.P.T.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(c.P.T.Context(), method, c.P.URL+path, reader)
	if err != nil {
		c.P.T.Fatal(err)
	}
	maps.Copy(r.Header, c.Header)
	response, err := c.P.Client().Do(r)
	if err != nil {
		c.P.T.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		c.P.T.Fatal(err)
	}
	if len(received) > 0 && !json.Valid(received) && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		c.P.T.Errorf("%s %s: not JSON: %s", method, path, received)
	}
	return &Answer{response.StatusCode, response.Header, received}
}

// Device is an enrolled device with its key pair.
type Device struct {
	*Caller
	ID       int64
	PublicID string
	Key      *ecdh.PrivateKey
	Refresh  string
}

// Enrol goes through device login and registration.
func (c *Caller) Enrol(publicID string) *Device {
	c.P.T.Helper()
	t := c.P.T
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	anonymous := c.P.Anonymous()
	anonymous.Do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).Data(t, &flow)
	c.Do("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, 200)
	var ready struct {
		Status           string
		RegistrationCode string `json:"registration_code"`
		UserID           int64  `json:"user_id"`
	}
	anonymous.Do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).Data(t, &ready)
	if ready.Status != "ready" {
		t.Fatalf("device login is %s", ready.Status)
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var registered struct {
		Device  struct{ ID int64 }
		Session struct {
			AccessToken  string `json:"access_token"`
			RefreshToken string `json:"refresh_token"`
		}
	}
	anonymous.Do("POST", "/apiv1/device/registration", map[string]any{
		"user_id": ready.UserID, "device_public_id": publicID, "registration_code": ready.RegistrationCode,
		"dev_pk": base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()),
	}, 201).Data(t, &registered)
	return &Device{Caller: c.P.Bearer(registered.Session.AccessToken), ID: registered.Device.ID, PublicID: publicID, Key: key, Refresh: registered.Session.RefreshToken}
}

func PublicID(n int) string { return fmt.Sprintf("%08x-0000-0000-0000-000000000000", n) }

// Eventually calls check until it returns true, for at most limit.
func Eventually(t *testing.T, limit time.Duration, what string, check func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
}
