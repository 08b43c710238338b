package app_test

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

const password = "Canary-Password-7c1f" // searched for in every log

// program is the whole server on a database of its own, behind a real socket.
type program struct {
	*httptest.Server
	t       *testing.T
	app     *app.App
	config  app.Config
	log     *logBuffer
	secrets *recorder         // that went in and out, looked for at the end
	leak    func(what string) // is told where one was found
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

// engines are the databases that whole-program tests run on.
var engines = map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig}

func onEach(t *testing.T, test func(t *testing.T, db sqldb.Config)) {
	t.Helper()
	for name, config := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, config(t))
		})
	}
}

// settings are those of a test server: everything on loopback.
func settings(t *testing.T, db sqldb.Config) app.Config {
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

// start runs the program. listener is where it answers, nil: any free port.
func start(t *testing.T, c app.Config, o app.Options, listener net.Listener) *program {
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
	secrets := &recorder{found: map[string]string{}, given: true}
	p := &program{Server: httptest.NewUnstartedServer(secrets.wrap(a)), t: t, app: a, config: c, log: log, secrets: secrets, leak: func(what string) { t.Error(what) }}
	if listener != nil {
		_ = p.Listener.Close()
		p.Listener = listener
	}
	p.Start()
	t.Cleanup(func() {
		a.Release()
		p.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
		files := p.databaseFiles()
		a.Close()
		p.checkSecrets(files)
		if strings.Contains(log.String(), password) {
			t.Error("the log holds the password")
		}
		if t.Failed() {
			t.Logf("log of the server:\n%s", log)
		}
	})
	return p
}

// answer is one answer of the server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// data decodes the data member.
func (a *answer) data(t *testing.T, v any) {
	t.Helper()
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.body, &envelope); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if err := json.Unmarshal(envelope.Data, v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// caller makes requests with one credential.
type caller struct {
	p      *program
	header http.Header
	UserID int64
}

func (p *program) anonymous() *caller { return &caller{p: p, header: http.Header{}} }

// bearer makes requests with a bearer token.
func (p *program) bearer(token string) *caller {
	return &caller{p: p, header: http.Header{"Authorization": {"Bearer " + token}}}
}

// person makes a user and signs in.
func (p *program) person(email string) *caller {
	p.t.Helper()
	users, done, err := app.Users(p.t.Context(), p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	defer done()
	if _, err := users.CreateUser(p.t.Context(), identity.NewUser{Email: email, Password: password}); err != nil {
		p.t.Fatal(err)
	}
	a := p.anonymous().do("POST", "/auth/general", map[string]any{"action": "login", "email": email, "password": password}, 200)
	var login struct{ User struct{ ID int64 } }
	a.data(p.t, &login)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return &caller{p: p, header: http.Header{"Cookie": {cookie}}, UserID: login.User.ID}
}

// do sends a request and fails the test when the status is not want.
func (c *caller) do(method, path string, body any, want int) *answer {
	c.p.t.Helper()
	a := c.try(method, path, body)
	if a.status != want {
		c.p.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, want)
	}
	return a
}

// try sends a request. A string body is sent as it is.
func (c *caller) try(method, path string, body any) *answer {
	c.p.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			c.p.t.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(c.p.t.Context(), method, c.p.URL+path, reader)
	if err != nil {
		c.p.t.Fatal(err)
	}
	maps.Copy(r.Header, c.header)
	response, err := c.p.Client().Do(r)
	if err != nil {
		c.p.t.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		c.p.t.Fatal(err)
	}
	if len(received) > 0 && !json.Valid(received) && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		c.p.t.Errorf("%s %s: not JSON: %s", method, path, received)
	}
	return &answer{response.StatusCode, response.Header, received}
}

// device is an enrolled device with its key pair.
type device struct {
	*caller
	ID       int64
	PublicID string
	key      *ecdh.PrivateKey
	Refresh  string
}

// enrol goes through device login and registration.
func (c *caller) enrol(publicID string) *device {
	c.p.t.Helper()
	t := c.p.t
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	anonymous := c.p.anonymous()
	anonymous.do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).data(t, &flow)
	c.do("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, 200)
	var ready struct {
		Status           string
		RegistrationCode string `json:"registration_code"`
		UserID           int64  `json:"user_id"`
	}
	anonymous.do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).data(t, &ready)
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
	anonymous.do("POST", "/apiv1/device/registration", map[string]any{
		"user_id": ready.UserID, "device_public_id": publicID, "registration_code": ready.RegistrationCode,
		"dev_pk": base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()),
	}, 201).data(t, &registered)
	return &device{caller: c.p.bearer(registered.Session.AccessToken), ID: registered.Device.ID, PublicID: publicID, key: key, Refresh: registered.Session.RefreshToken}
}

func publicID(n int) string { return fmt.Sprintf("%08x-0000-0000-0000-000000000000", n) }

// eventually calls check until it returns true, for at most limit.
func eventually(t *testing.T, limit time.Duration, what string, check func() bool) {
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
