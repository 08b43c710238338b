package apikeys

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const alice, bob = 1, 2

// env is the area on a database with two users and a clock, behind its routes
// and one that only a key with certificates read on it may call.
type env struct {
	*Service
	t      testing.TB
	mux    *web.Mux
	log    *bytes.Buffer
	clock  atomic.Int64 // Unix ms
	stepUp error        // what step-up says
}

func newEnv(t testing.TB, db *sqldb.DB) *env {
	t.Helper()
	e := &env{t: t, log: &bytes.Buffer{}}
	e.clock.Store(1_800_000_000_000)
	now := func() time.Time { return time.UnixMilli(e.clock.Load()) }
	for id, email := range map[int64]string{alice: "alice@example.org", bob: "bob@example.org"} {
		e.exec(db, `INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, $2, '', '', '', 'ACTIVE', '[]', 0, 0)`, id, email)
	}
	log := slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e.Service = NewService(Deps{DB: db, Audit: audit.New(now), StepUp: e, Log: log, Now: now})
	e.mux = web.New(web.Options{Log: log, Auth: web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			user, _ := strconv.ParseInt(r.Header.Get("X-Test"), 10, 64)
			if user == 0 {
				return nil, nil
			}
			return &access.Caller{Kind: access.KindSession, UserID: user, SessionID: 7}, nil
		},
		Key: e.Authenticate,
	}})
	e.Mount(e.mux)
	web.Route(e.mux, "GET /apiv1/users/{user_id}/certificates/{certificate_id}", access.Key("certificates", "read").On("certificate_id"),
		func(ctx context.Context, _ *struct{}) (int64, error) { return access.From(ctx).KeyID, nil })
	return e
}

// RequireStepUp implements StepUp.
func (e *env) RequireStepUp(context.Context, sqldb.Querier) error { return e.stepUp }

func (e *env) exec(db *sqldb.DB, query string, args ...any) {
	e.t.Helper()
	if _, err := db.Writer().ExecContext(e.t.Context(), query, args...); err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
}

func (e *env) count(query string, args ...any) (n int64) {
	e.t.Helper()
	if err := e.DB.Reader().QueryRowContext(e.t.Context(), query, args...).Scan(&n); err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
	return n
}

type answer struct {
	status int
	header http.Header
	raw    string
	Data   json.RawMessage
	Meta   web.Meta
	Error  struct {
		Code fault.Code
		What string
		Key  string
	}
}

// call sends a request as the user, or with the token when credential is one.
func (e *env) call(credential any, line, body string) answer {
	e.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(e.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	switch c := credential.(type) {
	case string:
		r.Header.Set("Authorization", "Bearer "+c)
	case int:
		r.Header.Set("X-Test", strconv.Itoa(c))
	}
	w := httptest.NewRecorder()
	e.mux.ServeHTTP(w, r)
	got := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	if w.Code != http.StatusNoContent {
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			e.t.Fatalf("%s: %v in %q", line, err, got.raw)
		}
	}
	return got
}

func (a answer) want(t testing.TB, status int, code fault.Code) answer {
	t.Helper()
	if a.status != status || a.Error.Code != code {
		t.Fatalf("%d %s, want %d/%d", a.status, a.raw, status, code)
	}
	return a
}

// data decodes the data member strictly: no member may be unknown.
func (a answer) data(t testing.TB, v any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(a.Data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, a.raw)
	}
}

const collection = "/apiv1/me/apikeys"

// make creates a key of alice that lives an hour.
func (e *env) make(permissions string) CreatedKey {
	e.t.Helper()
	var created CreatedKey
	e.call(alice, "POST "+collection, `{"name":"ci","expires_in_seconds":3600,"permissions":`+permissions+`}`).want(e.t, 201, 0).data(e.t, &created)
	return created
}

func (k *CreatedKey) item() string { return fmt.Sprintf("%s/%d", collection, k.ID) }

const readFive = `[{"obtype":"certificates","obid":"5","actions":["read"]}]`
