package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const (
	origin = "https://certs.example.org"
	ada    = "ada@example.org"
	bob    = "bob@example.org"
)

// house is the area with people on a database, providers that behave like the
// real ones, and a clock that the test moves.
type house struct {
	*Service
	people   *identity.Service
	mux      *web.Mux
	db       *sqldb.DB
	log      *logBuffer
	ms       atomic.Int64
	letters  atomic.Int64 // that were sent
	passkey  atomic.Bool  // everybody has one
	ada, bob int64
	github   providertest.GitHub
	weixin   providertest.Weixin
	corp     *providertest.OIDC
}

func (h *house) clock() time.Time        { return time.UnixMilli(h.ms.Load()) }
func (h *house) advance(d time.Duration) { h.ms.Add(d.Milliseconds()) }

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

// Enqueue implements identity.Mailer.
func (h *house) Enqueue(_ context.Context, tx *sqldb.Tx, m mail.Message) error {
	tx.AfterCommit(func() { h.letters.Add(1) })
	return nil
}

// factors are bindings, and a passkey when the test says so.
type factors struct {
	*Service
	h *house
}

func (f factors) HasPasskey(context.Context, sqldb.Querier, int64) (bool, error) {
	return f.h.passkey.Load(), nil
}

func build(t testing.TB, db *sqldb.DB, adapt ...func(*Deps)) *house {
	t.Helper()
	return buildIn(t, db, identity.RegistrationOpen, adapt...)
}

func buildIn(t testing.TB, db *sqldb.DB, mode identity.RegistrationMode, adapt ...func(*Deps)) *house {
	t.Helper()
	h := &house{db: db, log: &logBuffer{}, github: providertest.StartGitHub(t), weixin: providertest.StartWeixin(t), corp: providertest.StartOIDC(t)}
	h.ms.Store(1_700_000_000_000)
	h.corp.Now = h.clock
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	trail, limiter := audit.New(h.clock), ratelimit.NewLimiter(db, h.clock)
	h.people = identity.NewService(identity.Deps{DB: db, Audit: trail, Limiter: limiter, Log: log, Now: h.clock, HTTPS: true, Mail: h, Registration: mode})
	settings, err := Parse(Raw{
		GitHub: "client_id=" + h.github.ClientID + ",client_secret=" + h.github.ClientSecret + ",url=" + h.github.URL,
		Weixin: "app_id=" + h.weixin.ClientID + ",app_secret=" + h.weixin.ClientSecret + ",authorize_url=" + h.weixin.URL + "/connect/qrconnect,api_url=" + h.weixin.URL,
		OIDC:   []string{"name=corp,title=Corp,issuer=" + h.corp.URL + ",client_id=" + h.corp.ClientID + ",client_secret=" + h.corp.ClientSecret},
	})
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{
		DB: db, Audit: trail, Identity: h.people, Limiter: limiter, Log: log, Now: h.clock, BaseURL: origin, Settings: settings,
		Outbound: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 2 * time.Second},
	}
	for _, f := range adapt {
		f(&deps)
	}
	h.Service = NewService(deps)
	h.people.SetFactors(factors{h.Service, h})
	h.mux = web.New(web.Options{Log: log, Auth: web.Authenticator{Session: h.people.Session}, Now: h.clock})
	h.people.Mount(h.mux)
	h.Mount(h.mux)
	h.ada, h.bob = h.person(t, ada), h.person(t, bob)
	t.Cleanup(func() {
		for _, secret := range []string{h.github.ClientSecret, h.weixin.ClientSecret, h.corp.ClientSecret, url.QueryEscape(h.corp.ClientSecret), "token-", providertest.Upstream} {
			if strings.Contains(h.log.String(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
		if t.Failed() {
			t.Logf("log:\n%s", h.log)
		}
	})
	return h
}

// person makes a user with a password that no test here checks.
func (h *house) person(t testing.TB, email string) (id int64) {
	t.Helper()
	h.inTx(t, func(tx *sqldb.Tx) error {
		if tx.QueryRowContext(t.Context(), "SELECT id FROM users WHERE email = $1", email).Scan(&id) == nil {
			return nil // of another house on the same database
		}
		return tx.QueryRowContext(t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, '', '', '$argon2id$', 'ACTIVE', '[]', 1, 1) RETURNING id`, email).Scan(&id)
	})
	return id
}

func (h *house) inTx(t testing.TB, f func(tx *sqldb.Tx) error) {
	t.Helper()
	if err := h.db.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// browser keeps cookies as a browser does.
type browser struct {
	h       *house
	accept  string
	cookies map[string]string
}

func (h *house) browser() *browser { return &browser{h: h, cookies: map[string]string{}} }

func (b *browser) get(path string) *httptest.ResponseRecorder { return b.call("GET", path, nil) }

func (b *browser) call(method, path string, body any) *httptest.ResponseRecorder {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body)
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(content))
	r.Host = "certs.example.org"
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.accept != "" {
		r.Header.Set("Accept", b.accept)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.h.mux.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		} else {
			b.cookies[cookie.Name] = cookie.Value
		}
	}
	return w
}

// signedIn is a browser in which the user entered the password.
func (h *house) signedIn(t testing.TB, userID int64) *browser {
	t.Helper()
	b := h.browser()
	h.inTx(t, func(tx *sqldb.Tx) error {
		cookies, _, err := h.people.SignIn(t.Context(), tx, userID, identity.Method{AMR: []string{"pwd"}, ACR: "aal1"})
		b.cookies[cookies[0].Name] = cookies[0].Value
		return err
	})
	return b
}

// kind is a provider, as the tests that go through all of them see it.
type kind struct {
	code, path string
	server     *providertest.Server
	tokenPath  string
}

func (h *house) kinds() []kind {
	return []kind{
		{"github", "/auth/github", h.github.Server, providertest.GitHubToken},
		{"weixin", "/auth/weixin", h.weixin.Server, providertest.WeixinToken},
		{"corp", "/auth/oidc/corp", h.corp.Server, providertest.OIDCToken},
	}
}

// begin clicks on "sign in with": the address at the provider.
func (b *browser) begin(t testing.TB, k kind) string {
	t.Helper()
	return want(t, b.get(k.path+"?to=/console"), http.StatusSeeOther, "").Header().Get("Location")
}

// beginBinding asks to be bound: the address at the provider.
func (b *browser) beginBinding(t testing.TB, k kind) string {
	t.Helper()
	return data[struct{ URL string }](t, want(t, b.call("POST", "/auth/third-party-bindings/"+k.code, nil), http.StatusOK, "")).URL
}

// visit goes to the provider, where the person agrees or not, and gives the path
// to which the provider sends the browser back.
func visit(t testing.TB, k kind, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || resp.StatusCode != http.StatusFound || !strings.HasPrefix(back.String(), origin+k.path+"/callback?") {
		t.Fatalf("%s: status %d, back to %s", address, resp.StatusCode, back)
	}
	return back.RequestURI()
}

// signIn goes the whole way.
func (b *browser) signIn(t testing.TB, k kind, p providertest.Person) *httptest.ResponseRecorder {
	t.Helper()
	k.server.SignedIn(p)
	return b.get(visit(t, k, b.begin(t, k)))
}

// who is the user of the browser's session, 0: none.
func (b *browser) who(t testing.TB) int64 {
	t.Helper()
	return data[struct{ User struct{ ID int64 } }](t, want(t, b.get("/auth/status"), http.StatusOK, "")).User.ID
}

func (b *browser) bindings(t testing.TB) []identity.Binding {
	t.Helper()
	return data[[]identity.Binding](t, want(t, b.get("/auth/third-party-bindings"), http.StatusOK, ""))
}

// want checks status and text of an answer.
func want(t testing.TB, w *httptest.ResponseRecorder, status int, text string) *httptest.ResponseRecorder {
	t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), text) || strings.Contains(w.Body.String(), providertest.Upstream) {
		t.Fatalf("got %d %s %s\nwant %d with %q", w.Code, w.Header().Get("Location"), w.Body, status, text)
	}
	return w
}

func data[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	var envelope struct{ Data T }
	if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return envelope.Data
}

// number reads one number from the database.
func (h *house) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := h.db.Reader().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// audited counts the entries of an action in the user's log.
func (h *house) audited(t testing.TB, userID int64, action string) int64 {
	t.Helper()
	return h.number(t, "SELECT COUNT(*) FROM audit_log WHERE user_id = $1 AND action = $2", userID, action)
}
