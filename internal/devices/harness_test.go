package devices_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const (
	publicID = "00112233-4455-6677-8899-AABBCCDDEEFF"
	devPK    = "B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9/AsrhtHHw=" // wire.md 7.4
)

// otherPK is a usable X25519 key other than devPK.
var otherPK = base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{9}, 31), 1))

// world is the area behind its routes, with two users and a clock that only
// the test moves.
type world struct {
	t       testing.TB
	db      *sqldb.DB
	deps    devices.Deps
	svc     *devices.Service
	mux     *web.Mux
	ms      *atomic.Int64
	user    int64
	other   int64
	keys    *keyEvents
	letters *letters
	address string
}

// letters are the notices that owners got.
type letters struct {
	mu   sync.Mutex
	seen []devices.Notice
}

func (l *letters) tell(_ context.Context, _ *sqldb.Tx, n devices.Notice) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, n)
	return nil
}

// told are the notices of a kind.
func (w *world) told(kind devices.NoticeKind) (list []devices.Notice) {
	w.letters.mu.Lock()
	defer w.letters.mu.Unlock()
	for _, n := range w.letters.seen {
		if n.Kind == kind {
			list = append(list, n)
		}
	}
	return list
}

// keyEvents is the KeyListener of the tests.
type keyEvents struct {
	mu     sync.Mutex
	seen   []devices.Device
	refuse error
}

func (k *keyEvents) DeviceKeyChanged(_ context.Context, _ *sqldb.Tx, d devices.Device) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, d)
	return k.refuse
}

type refresher struct{}

func (refresher) RefreshSession(ctx context.Context) ([]*http.Cookie, error) {
	return []*http.Cookie{{Name: "u", Value: strconv.FormatInt(access.From(ctx).UserID, 10)}}, nil
}

func newWorld(t testing.TB, db *sqldb.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, ms: new(atomic.Int64), keys: &keyEvents{}, letters: &letters{}, address: "192.0.2.1:1000"}
	w.ms.Store(1_700_000_000_000)
	ring, err := seal.New(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.UnixMilli(w.ms.Load()) }
	w.deps = devices.Deps{
		DB: db, Audit: audit.New(now), Keyring: ring, Limiter: ratelimit.NewLimiter(db, now), Keys: w.keys,
		Sessions: refresher{}, Tell: w.letters.tell, Now: now, BaseURL: "https://certs.example.com/",
	}
	w.svc, w.mux = w.node()
	w.user, w.other = w.newUser("a@example.com"), w.newUser("b@example.com")
	return w
}

// node is one more server on the same database.
func (w *world) node() (*devices.Service, *web.Mux) {
	svc := devices.NewService(w.deps)
	m := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			c, err := r.Cookie("u")
			if err != nil {
				return nil, nil //nolint:nilerr // no cookie, no caller
			}
			id, err := strconv.ParseInt(c.Value, 10, 64)
			if id == 0 {
				return nil, nil //nolint:nilnil // a session that has ended
			}
			return &access.Caller{Kind: access.KindSession, UserID: id, SessionID: 1}, err
		},
		Key: func(_ context.Context, token string) (*access.Caller, error) { // ak_<user>_<scope>_<object>_<action>
			p := strings.Split(token, "_")
			id, err := strconv.ParseInt(p[1], 10, 64)
			return &access.Caller{Kind: access.KindKey, UserID: id, KeyID: 1, Grants: []access.Grant{{Scope: p[2], Object: p[3], Actions: []string{p[4]}}}}, err
		},
		Device: svc.AuthenticateDevice,
	}})
	svc.Mount(m)
	return svc, m
}

func (w *world) newUser(email string) (id int64) {
	w.t.Helper()
	err := w.db.InTx(w.t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRowContext(w.t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
			VALUES ($1, '', '', '', 'ACTIVE', '[]', 0, 0) RETURNING id`, email).Scan(&id)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) advance(d time.Duration) { w.ms.Add(d.Milliseconds()) }

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	err := w.db.InTx(context.Background(), func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(context.Background(), query, args...)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.Reader().QueryRowContext(context.Background(), query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// answer is what a request came to.
type answer struct {
	status int
	header http.Header
	body   string
	data   map[string]any
	code   int
	key    string
}

// as is a credential: a cookie, a bearer token or "".
func session(user int64) string { return fmt.Sprintf("u=%d", user) }

func (w *world) call(credential, line string, body any) answer {
	w.t.Helper()
	return w.callOn(w.mux, credential, line, body)
}

func (w *world) callOn(m *web.Mux, credential, line string, body any) answer {
	w.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	var text string
	switch body := body.(type) {
	case nil:
	case string:
		text = body
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		text = string(encoded)
	}
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(text))
	r.RemoteAddr = w.address
	if text != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	switch {
	case strings.HasPrefix(credential, "u="):
		r.Header.Set("Cookie", credential)
	case credential != "":
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	recorder := httptest.NewRecorder()
	m.ServeHTTP(recorder, r)
	a := answer{status: recorder.Code, header: recorder.Header(), body: recorder.Body.String()}
	var envelope struct {
		Data  json.RawMessage `json:"data"`
		Error *struct {
			Code int    `json:"code"`
			Key  string `json:"key"`
		} `json:"error"`
	}
	if a.body != "" && strings.Contains(recorder.Header().Get("Content-Type"), "json") {
		if err := json.Unmarshal(recorder.Body.Bytes(), &envelope); err != nil {
			w.t.Fatalf("%s: %v: %s", line, err, a.body)
		}
		if envelope.Error != nil {
			a.code, a.key = envelope.Error.Code, envelope.Error.Key
		}
		_ = json.Unmarshal(envelope.Data, &a.data) // a list stays in body
	}
	return a
}

// want fails the test unless the answer has this status and error code.
func (a answer) want(t testing.TB, status, code int) answer {
	t.Helper()
	if a.status != status || a.code != code {
		t.Fatalf("%d/%d, want %d/%d: %s", a.status, a.code, status, code, a.body)
	}
	return a
}

func (a answer) member(path string) any {
	var v any = a.data
	for part := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[part]
	}
	return v
}

func (a answer) text(path string) string { s, _ := a.member(path).(string); return s }
func (a answer) id(path string) int64    { f, _ := a.member(path).(float64); return int64(f) }

// code lets the user approve a device login and returns the registration code.
func (w *world) code(user int64) string {
	w.t.Helper()
	started := w.call("", "POST /auth/device", m{"action": "device_start", "interval": 5, "expires_in": 900}).want(w.t, 200, 0)
	w.call(session(user), "POST /auth/device", m{"action": "device_verify", "user_code": started.text("user_code")}).want(w.t, 200, 0)
	return w.call("", "POST /auth/device", m{"action": "device_poll", "device_code": started.text("device_code")}).want(w.t, 200, 0).text("registration_code")
}

type m = map[string]any

// body is a registration as agents send it.
func (w *world) body(user int64, code string, more m) m {
	b := m{"user_id": user, "registration_code": code, "device_public_id": publicID, "dev_pk": devPK, "platform": "linux", "ip": "unknown", "extra": true}
	maps.Copy(b, more)
	return b
}

const registration = "POST /apiv1/device/registration"

// register makes the device publicID of the user.
func (w *world) register(user int64, more m) answer {
	w.t.Helper()
	return w.call("", registration, w.body(user, w.code(user), more))
}

func (w *world) refresh(token string) answer {
	w.t.Helper()
	return w.call("", "POST /auth/refresh", m{"refresh_token": token})
}

// notify is the cheapest call with a device token.
func (w *world) notify(token string) answer {
	w.t.Helper()
	return w.call(token, "POST /apiv1/devices/self/notify", m{"events": []any{}})
}

// revokedKeys says of every key that it was revoked.
type revokedKeys struct{}

func (revokedKeys) Check(context.Context, *sqldb.Tx, int64) error {
	return fault.Unauthorized("revoked")
}
