package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// clock is a wall clock that tests set.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(1_700_000_000_000)
	return c
}

func newService(t testing.TB, db *sqldb.DB, c *clock) *Service {
	t.Helper()
	s := NewService(Deps{DB: db, Now: c.now})
	t.Cleanup(s.Close)
	return s
}

// addDevices inserts one user and devices 1 to n.
func addDevices(t testing.TB, db *sqldb.DB, n int) {
	t.Helper()
	exec := func(query string, args ...any) {
		if _, err := db.Writer().ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
		VALUES (1, 'a@example.com', '', '', '', 'ACTIVE', '[]', 0, 0)`)
	for id := range n {
		exec(`INSERT INTO devices (id, user_id, public_id, public_key, status, session_no, name, platform, model, app_version,
			agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
			VALUES ($1, 1, $2, $3, 'ACTIVE', 1, '', '', '', '', '', '', '', '', 0, 0, 0)`,
			id+1, fmt.Sprintf("d%d", id+1), make([]byte, 32))
	}
}

// signal makes a signal whose ref tells signals apart.
func signal(n int) Signal {
	return Signal{Type: "test.signal", Ref: map[string]int{"n": n}}
}

func number(t testing.TB, e Entry) int {
	t.Helper()
	var ref struct{ N int }
	if err := json.Unmarshal(e.Ref, &ref); err != nil {
		t.Fatal(err)
	}
	return ref.N
}

func appendOne(t testing.TB, s *Service, deviceID int64, sig Signal) {
	t.Helper()
	err := s.db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Append(t.Context(), tx, deviceID, sig) })
	if err != nil {
		t.Fatal(err)
	}
}

// newMux serves the area to callers whose bearer token is their device id.
func newMux(s *Service) *web.Mux {
	m := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
		Device: func(_ context.Context, token string) (*access.Caller, error) {
			id, err := strconv.ParseInt(token, 10, 64)
			if err != nil {
				return nil, fault.Unauthorized("bad token")
			}
			return &access.Caller{Kind: access.KindDevice, UserID: 1, DeviceID: id}, nil
		},
	}})
	s.Mount(m)
	return m
}

// poll sends one request of device 1; header pairs follow the query.
func poll(t testing.TB, h http.Handler, query string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/apiv1/devices/self/updates"+query, nil)
	r.Header.Set("Authorization", "Bearer 1")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

type pageAnswer struct {
	Data struct {
		Cursor  string
		Signals []struct {
			Type string          `json:"type"`
			TSMS int64           `json:"ts_ms"`
			Ref  json.RawMessage `json:"ref"`
		}
	}
}

type errorAnswer struct {
	Error struct {
		Code   int
		What   string
		Key    string
		Params map[string]any
	}
}
