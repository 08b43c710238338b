package installs

import (
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
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// house is the area on a database with user 1 (devices 1 and 2), user 2
// (device 3) and a clock.
type house struct {
	db    *sqldb.DB
	s     *Service
	feed  *feed.Service
	mux   *web.Mux
	shelf shelf
	clock atomic.Int64 // Unix s
}

func newHouse(t testing.TB, db *sqldb.DB) *house {
	t.Helper()
	h := &house{db: db, shelf: shelf{certs: map[int64]string{7: ""}, cas: map[int64]bool{3: true}}}
	h.clock.Store(1_700_000_000)
	now := func() time.Time { return time.Unix(h.clock.Load(), 0) }
	for user, devices := range map[int64][]int64{1: {1, 2}, 2: {3}} {
		h.exec(t, `INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, $2, '', '', '', 'ACTIVE', '[]', 0, 0)`, user, fmt.Sprintf("u%d@example.com", user))
		for _, id := range devices {
			h.exec(t, `INSERT INTO devices (id, user_id, public_id, public_key, status, session_no, name, platform, model, app_version,
				agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
				VALUES ($1, $2, $3, $4, 'ACTIVE', 1, '', '', '', '', '', '', '', '', 0, 0, 0)`, id, user, publicID(id), make([]byte, 32))
		}
	}
	h.feed = feed.NewService(feed.Deps{DB: db, Now: now})
	t.Cleanup(h.feed.Close)
	h.s = NewService(Deps{DB: db, Audit: audit.New(now), Feed: h.feed, Devices: registry{}, Objects: h.shelf, Now: now})
	h.mux = web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: authenticator()})
	h.s.Mount(h.mux)
	return h
}

func publicID(id int64) string { return fmt.Sprintf("%08x-0000-0000-0000-000000000000", id) }

func (h *house) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := h.db.Writer().ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func (h *house) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := h.db.Reader().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// shelf has the certificates and CAs of everybody.
type shelf struct {
	certs map[int64]string
	cas   map[int64]bool
}

func (s shelf) Certificates(context.Context, sqldb.Querier, int64, int64, []int64) (map[int64]string, error) {
	return s.certs, nil
}

func (s shelf) CAs(context.Context, sqldb.Querier, int64, []int64) (map[int64]bool, error) {
	return s.cas, nil
}

// registry finds devices in the table.
type registry struct{}

func (registry) DeviceID(ctx context.Context, q sqldb.Querier, userID, deviceID int64) (id int64, err error) {
	return found(id, q.QueryRowContext(ctx, "SELECT id FROM devices WHERE user_id = $1 AND id = $2", userID, deviceID).Scan(&id), &id)
}

func (registry) DeviceIDByPublicID(ctx context.Context, q sqldb.Querier, userID int64, publicID string) (id int64, err error) {
	if len(publicID) != 36 {
		return 0, fault.Invalid("device_public_id", "must be 36 characters")
	}
	return found(id, q.QueryRowContext(ctx, "SELECT id FROM devices WHERE user_id = $1 AND public_id = $2", userID, publicID).Scan(&id), &id)
}

func found(_ int64, err error, id *int64) (int64, error) {
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, fault.NotFound("device")
	}
	return *id, err
}

// authenticator takes "Bearer ak_<scope>:<obid>" as key 9 of user 1, a decimal
// bearer token as a device, and the header X-User as a session.
func authenticator() web.Authenticator {
	return web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			if r.Header.Get("X-User") == "" {
				return nil, nil
			}
			id, err := strconv.ParseInt(r.Header.Get("X-User"), 10, 64)
			if err != nil {
				return nil, fault.Unauthorized("bad session")
			}
			return &access.Caller{Kind: access.KindSession, UserID: id, SessionID: id}, nil
		},
		Key: func(_ context.Context, token string) (*access.Caller, error) {
			scope, object, _ := strings.Cut(strings.TrimPrefix(token, "ak_"), ":")
			return &access.Caller{Kind: access.KindKey, UserID: 1, KeyID: 9, Grants: []access.Grant{{Scope: scope, Object: object, Actions: []string{"read", "update"}}}}, nil
		},
		Device: func(_ context.Context, token string) (*access.Caller, error) {
			id, err := strconv.ParseInt(token, 10, 64)
			if err != nil {
				return nil, fault.Unauthorized("bad token")
			}
			return &access.Caller{Kind: access.KindDevice, UserID: 1, DeviceID: id}, nil
		},
	}
}

const (
	asUser   = "X-User: 1"
	asOther  = "X-User: 2"
	asDevice = "Authorization: Bearer 1"
	asKey    = "Authorization: Bearer ak_ForInstallConfigUpdate:*"
)

// call sends a request whose body is a text or encoded as JSON.
func (h *house) call(t testing.TB, as, method, path string, body any) *httptest.ResponseRecorder {
	t.Helper()
	var reader *strings.Reader
	switch body := body.(type) {
	case nil:
		reader = strings.NewReader("")
	case string:
		reader = strings.NewReader(body)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = strings.NewReader(string(raw))
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, reader)
	r.Header.Set("Content-Type", "application/json")
	name, value, _ := strings.Cut(as, ": ")
	r.Header.Set(name, value)
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w
}

type answer[T any] struct {
	Data     T
	Meta     *web.Meta
	Warnings []string
	Error    struct {
		Code int
		What string
	}
}

// want requires the status and decodes the answer.
func want[T any](t testing.TB, w *httptest.ResponseRecorder, status int) answer[T] {
	t.Helper()
	var a answer[T]
	if w.Code != status {
		t.Fatalf("%d %s, want %d", w.Code, w.Body, status)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return a
}

// signals gives the refs of the device's install.updated signals.
func (h *house) signals(t testing.TB, deviceID int64) (refs []string) {
	t.Helper()
	entries, err := h.feed.Read(t.Context(), deviceID, feed.Cursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type != "install.updated" {
			t.Errorf("a signal %s", e.Type)
		}
		refs = append(refs, string(e.Ref))
	}
	return refs
}

const (
	configPath = "/apiv1/me/devices/1/install-config"
	selfPath   = "/apiv1/devices/self/install-config"
	patchBase  = "/apiv1/me/install-config-update/"
)

// twoSteps are a copy step for certificate 7 and an exec step after it, with
// the empty members that field tools send.
const twoSteps = `{"installs":[
	{"id":"web","type":"copy","enabled":true,"continue_on_error":false,"depends_on":[],"tags":[],"ob_type":"cert","ob_id":7,"ob_name":"",
	 "from":["fullchain.pem","private.key"],"to":["/etc/ssl/web.pem","/etc/ssl/web.key"],
	 "cmd":"","cmd_argv":[],"timeout_ms":0,"run_as":"","env":{},"verify":{}},
	{"type":"exec","depends_on":["web"],"cmd":"","cmd_argv":["systemctl","reload","nginx"],"timeout_ms":5000,"from":[],"to":[],"ob_type":"","ob_id":0}],
	"change_note":"first"}`
