package identity

import (
	"context"
	"crypto/sha256"
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
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const (
	ada      = "ada@example.org"
	adaPass  = "Analytical-Engine-1843"
	wrongPas = "Difference-Engine-1822"
)

// house is the area on a database, with a clock that the test moves and a hash
// that is cheap and counted.
type house struct {
	*Service
	mux    *web.Mux
	ms     atomic.Int64
	hashes atomic.Int64
	ada    int64 // the id of an ACTIVE administrator
	desk   *desk
}

// desk stands for the job engine and the mail of a house: it keeps what is
// enqueued until the test asks.
type desk struct {
	mu       sync.Mutex
	requests []int64
	letters  []mail.Message
}

// Insert implements Inserter.
func (d *desk) Insert(_ context.Context, tx *sqldb.Tx, args jobs.Args, _ jobs.Options) error {
	tx.AfterCommit(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.requests = append(d.requests, args.(accountArgs).RequestID)
	})
	return nil
}

// Enqueue implements Mailer.
func (d *desk) Enqueue(_ context.Context, tx *sqldb.Tx, m mail.Message) error {
	tx.AfterCommit(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.letters = append(d.letters, m)
	})
	return nil
}

// work does what was left to jobs, every one twice, and returns the letters
// that were written since the last call.
func (h *house) work(t testing.TB) []mail.Message {
	t.Helper()
	h.desk.mu.Lock()
	requests := h.desk.requests
	h.desk.requests = nil
	h.desk.mu.Unlock()
	for _, id := range append(requests, requests...) {
		if err := h.handleRequest(context.WithoutCancel(t.Context()), id); err != nil {
			t.Fatal(err)
		}
	}
	h.desk.mu.Lock()
	defer h.desk.mu.Unlock()
	letters := h.desk.letters
	h.desk.letters = nil
	return letters
}

// general calls POST /auth/general with members of the body as pairs.
func (h *house) general(action string, pairs ...string) *httptest.ResponseRecorder {
	body := map[string]string{"action": action}
	for i := 0; i < len(pairs); i += 2 {
		body[pairs[i]] = pairs[i+1]
	}
	text, _ := json.Marshal(body) // strings always encode
	return h.call("POST", "/auth/general", string(text))
}

func (h *house) clock() time.Time        { return time.UnixMilli(h.ms.Load()) }
func (h *house) advance(d time.Duration) { h.ms.Add(d.Milliseconds()) }

func build(t testing.TB, db *sqldb.DB, adapt ...func(*Deps)) *house {
	t.Helper()
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	h := open(db, keys, adapt...)
	if err := h.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.ada, err = h.CreateUser(t.Context(), NewUser{Email: ada, Name: "ada", Password: adaPass, Admin: true}); err != nil {
		t.Fatal(err)
	}
	h.hashes.Store(0)
	return h
}

// reopen is another server on the same database, with other settings.
func reopen(h *house, adapt ...func(*Deps)) *house {
	other := open(h.db, h.codeKeys.keyring, adapt...)
	other.codeKeys.key = h.codeKeys.key
	other.ada = h.ada
	other.ms.Store(h.ms.Load())
	return other
}

func open(db *sqldb.DB, keys *seal.Keyring, adapt ...func(*Deps)) *house {
	h := &house{desk: &desk{}}
	h.ms.Store(1_700_000_000_000)
	log := slog.New(slog.DiscardHandler)
	deps := Deps{
		DB: db, Audit: audit.New(h.clock), Limiter: ratelimit.NewLimiter(db, h.clock), Log: log, Now: h.clock, HashSlots: 4,
		Keys: keys, Mail: h.desk, BaseURL: "https://certs.example.org", Registration: RegistrationOpen,
	}
	for _, f := range adapt {
		f(&deps)
	}
	h.Service = NewService(deps)
	h.UseJobs(h.desk)
	h.passwords.derive = func(password, salt []byte, _, _ uint32, _ uint8, _ uint32) []byte {
		h.hashes.Add(1)
		sum := sha256.Sum256(append(append([]byte{}, salt...), password...))
		return sum[:]
	}
	h.mux = web.New(web.Options{Log: log, Auth: web.Authenticator{Session: h.Session}, Now: h.clock})
	h.Mount(h.mux)
	return h
}

// call sends a request; options change it before.
func (h *house) call(method, path, body string, options ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, option := range options {
		option(r)
	}
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w
}

func (h *house) login(email, password string, options ...func(*http.Request)) *httptest.ResponseRecorder {
	return h.call("POST", "/auth/general", `{"action":"login","email":"`+email+`","password":"`+password+`"}`, options...)
}

// signIn signs Ada in and returns the pair for the Cookie header.
func (h *house) signIn(t testing.TB, options ...func(*http.Request)) string {
	t.Helper()
	return h.signInAs(t, ada, options...)
}

// signInAs signs somebody in who has the password of Ada.
func (h *house) signInAs(t testing.TB, email string, options ...func(*http.Request)) string {
	t.Helper()
	w := h.login(email, adaPass, options...)
	if w.Code != http.StatusOK {
		t.Fatalf("sign in: %d %s", w.Code, w.Body)
	}
	pair, _, _ := strings.Cut(w.Result().Header.Get("Set-Cookie"), ";")
	return pair
}

func cookie(pair string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add("Cookie", pair) }
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// number reads one number from the database.
func number(t testing.TB, db *sqldb.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.Reader().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
