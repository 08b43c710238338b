package passkeys

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const (
	origin = "https://certs.example.org"
	ada    = "ada@example.org"
	bob    = "bob@example.org"
)

// house is the area with people on a database, and a clock that the test moves.
type house struct {
	*Service
	people   *identity.Service
	mux      *web.Mux
	db       *sqldb.DB
	ms       atomic.Int64
	ada, bob int64
	letters  letters
}

// letters stand for the mail: they keep what was enqueued.
type letters struct {
	mu   sync.Mutex
	sent []mail.Message
}

// Enqueue implements identity.Mailer.
func (l *letters) Enqueue(_ context.Context, tx *sqldb.Tx, m mail.Message) error {
	tx.AfterCommit(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sent = append(l.sent, m)
	})
	return nil
}

func (h *house) clock() time.Time        { return time.UnixMilli(h.ms.Load()) }
func (h *house) advance(d time.Duration) { h.ms.Add(d.Milliseconds()) }

// factors are passkeys alone.
type factors struct {
	identity.Factors
	*Service
}

func (f factors) HasPasskey(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	return f.Service.HasPasskey(ctx, q, userID)
}

func (factors) Bindings(context.Context, sqldb.Querier, int64) ([]identity.Binding, error) {
	return nil, nil
}

func build(t testing.TB, db *sqldb.DB, adapt ...func(*Deps)) *house {
	t.Helper()
	h := &house{db: db}
	h.ms.Store(1_700_000_000_000)
	log := slog.New(slog.DiscardHandler)
	trail, limiter := audit.New(h.clock), ratelimit.NewLimiter(db, h.clock)
	h.people = identity.NewService(identity.Deps{DB: db, Audit: trail, Limiter: limiter, Log: log, Now: h.clock, HTTPS: true, Mail: &h.letters, BaseURL: origin})
	deps := Deps{DB: db, Audit: trail, Identity: h.people, Limiter: limiter, Log: log, Now: h.clock, BaseURL: origin}
	for _, f := range adapt {
		f(&deps)
	}
	h.Service = NewService(deps)
	h.people.SetFactors(factors{Service: h.Service})
	h.mux = web.New(web.Options{Log: log, Auth: web.Authenticator{Session: h.people.Session}, Now: h.clock})
	h.people.Mount(h.mux)
	h.Mount(h.mux)
	h.ada, h.bob = h.person(t, ada, "$argon2id$"), h.person(t, bob, "$argon2id$")
	return h
}

// person makes a user. No test here checks a password, so none is hashed; ""
// makes one who has none.
func (h *house) person(t testing.TB, email, password string) (id int64) {
	t.Helper()
	h.inTx(t, func(tx *sqldb.Tx) error {
		return tx.QueryRowContext(t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, '', '', $2, 'ACTIVE', '[]', 1, 1) RETURNING id`, email, password).Scan(&id)
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
	cookies map[string]string
}

func (h *house) browser() *browser { return &browser{h: h, cookies: map[string]string{}} }

// post sends a body, which may be nil.
func (b *browser) post(path string, body any) *httptest.ResponseRecorder {
	return b.call("POST", path, body)
}

func (b *browser) call(method, path string, body any) *httptest.ResponseRecorder {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body)
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(content))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
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

// options asks for options of a ceremony.
func (b *browser) options(t testing.TB, what string) map[string]any {
	t.Helper()
	return data[map[string]any](t, want(t, b.post("/auth/webauthn/"+what+"/options", nil), http.StatusOK, ""))
}

// add registers a passkey of the authenticator.
func (b *browser) add(t testing.TB, a *authenticator) Passkey {
	t.Helper()
	return data[Passkey](t, want(t, b.post("/auth/webauthn/register/verify", a.create(b.options(t, "register"))), http.StatusCreated, ""))
}

// who is the user of the browser's session and its level, 0 and "": none.
func (b *browser) who(t testing.TB) (id int64, acr string, amr []string) {
	t.Helper()
	status := data[struct {
		User struct{ ID int64 }
		ACR  string
		AMR  []string
	}](t, want(t, b.call("GET", "/auth/status", nil), http.StatusOK, ""))
	return status.User.ID, status.ACR, status.AMR
}

// want checks status and text of an answer.
func want(t testing.TB, w *httptest.ResponseRecorder, status int, text string) *httptest.ResponseRecorder {
	t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), text) {
		t.Fatalf("got %d %s\nwant %d with %q", w.Code, w.Body, status, text)
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
