package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

func request(t testing.TB, pair string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if pair != "" {
		r.Header.Set("Cookie", pair)
	}
	return r
}

func TestSessionCaller(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		pair := h.signIn(t)
		c, err := h.Session(request(t, pair))
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind != access.KindSession || c.UserID != h.ada || c.SessionID == 0 || c.ACR != "aal1" ||
			c.AuthTime != h.ms.Load() || len(c.AMR) != 1 || c.AMR[0] != "pwd" || len(c.Roles) != 1 || c.Roles[0] != RoleAdmin {
			t.Errorf("caller %+v", c)
		}
		if c, err := h.Session(request(t, "")); c != nil || err != nil {
			t.Errorf("without a cookie: %v, %v", c, err)
		}
		token := strings.TrimPrefix(pair, "certharbor_session=")
		for name, value := range map[string]string{
			"other":           strings.Repeat("A", tokenLength),
			"shorter":         token[1:],
			"longer":          token + "A",
			"the stored hash": string(seal.HashToken(token)),
			"SQL":             "' OR '1'='1",
			"NUL":             "\x00",
			"huge":            strings.Repeat("A", 1<<20),
		} {
			if c, err := h.Session(request(t, "certharbor_session="+value)); c != nil || !fault.Is(err, fault.CodeUnauthorized) {
				t.Errorf("%s: %v, %v; want 5018", name, c, err)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM sessions WHERE token_hash = $1", []byte(token)); n != 0 {
			t.Error("the token is stored as it is")
		}
	})
}

// TestSessionSlides: 30 days from the last use, written at most once an hour.
func TestSessionSlides(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		pair := h.signIn(t)
		ends := func() int64 { return number(t, db, "SELECT expires_at FROM sessions") }
		use := func() error { _, err := h.Session(request(t, pair)); return err }
		first := ends()
		if first != h.ms.Load()+(30*24*time.Hour).Milliseconds() {
			t.Errorf("a new session ends at %d", first)
		}
		h.advance(59 * time.Minute)
		if err := use(); err != nil || ends() != first {
			t.Errorf("used within the hour: ends at %d, was %d, %v", ends(), first, err)
		}
		h.advance(time.Minute)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := use(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if want := first + time.Hour.Milliseconds(); ends() != want {
			t.Errorf("used after an hour: ends at %d, want %d", ends(), want)
		}
		h.advance(30*24*time.Hour - time.Millisecond)
		if err := use(); err != nil {
			t.Errorf("at the last moment: %v", err)
		}
		h.advance(30 * 24 * time.Hour)
		if err := use(); !fault.Is(err, fault.CodeUnauthorized) {
			t.Errorf("30 days after the last use: %v", err)
		}
		if err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM sessions"); n != 0 {
			t.Errorf("%d sessions after the sweep", n)
		}
	})
}

// TestSessionsOutliveAWrongClock: a clock that is a year ahead for some hours
// ends no session (threats.md scenario 20).
func TestSessionsOutliveAWrongClock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		h.signIn(t)
		const year = 365 * 24 * time.Hour
		for _, by := range []time.Duration{0, time.Hour, year, time.Hour, -year} {
			h.advance(by)
			if err := h.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := number(t, db, "SELECT COUNT(*) FROM sessions"); n != 1 {
				t.Errorf("%d sessions after %s, want 1", n, by)
			}
		}
		h.advance(year)
		for hour := range 25 { // it is a year later indeed
			if err := h.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := number(t, db, "SELECT COUNT(*) FROM sessions"); (n == 0) != (hour == 24) {
				t.Errorf("%d sessions after %d hours", n, hour)
			}
			h.advance(time.Hour)
		}
	})
}

// TestSessionIsReadWhileNothingCanBeWritten: a slide that fails costs nothing.
func TestSessionIsReadWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	h := build(t, db)
	pair := h.signIn(t)
	change(t, db, "CREATE TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'full'); END")
	h.advance(2 * time.Hour)
	if c, err := h.Session(request(t, pair)); err != nil || c == nil {
		t.Errorf("%v, %v", c, err)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		other, pair := h.signIn(t), h.signIn(t)
		for i, what := range []string{"signed in", "with a dead session"} {
			w := h.call("POST", "/auth/logout", "", cookie(pair))
			if w.Code != http.StatusNoContent || w.Body.Len() != 0 || w.Header().Get("Set-Cookie") != "certharbor_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax" {
				t.Errorf("%s: %d %q %q", what, w.Code, w.Body, w.Header().Get("Set-Cookie"))
			}
			if authenticated(t, h, pair) || !authenticated(t, h, other) {
				t.Errorf("round %d: the wrong session ended", i)
			}
		}
		if w := h.call("POST", "/auth/logout", ""); w.Code != http.StatusNoContent {
			t.Errorf("without a session: %d", w.Code)
		}
		if w := h.call("GET", "/auth/profile", "", cookie(pair)); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("profile after logout: %d", w.Code)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'session.sign_out' AND user_id = $1", h.ada); n != 1 {
			t.Errorf("%d audit entries of the sign-out", n)
		}
		if w := h.call("POST", "/auth/logout", "", cookie(other), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); w.Code != http.StatusForbidden || !authenticated(t, h, other) {
			t.Errorf("from a foreign page: %d", w.Code)
		}
	})
}

func TestRefreshSession(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		web.RouteReply(h.mux, "POST /auth/refresh", access.Public(), func(ctx context.Context, _ *struct{}) (*web.Reply[web.None], error) {
			fresh, err := h.RefreshSession(ctx)
			if err != nil {
				return nil, err
			}
			reply := web.NoContent()
			reply.Cookies = fresh
			return reply, nil
		})
		pair := h.signIn(t)
		id := number(t, db, "SELECT id FROM sessions")
		h.advance(24 * time.Hour)
		w := h.call("POST", "/auth/refresh", "", cookie(pair))
		fresh, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
		if w.Code != http.StatusNoContent || fresh == pair || !authenticated(t, h, fresh) || authenticated(t, h, pair) {
			t.Errorf("%d: %q replaces %q", w.Code, fresh, pair)
		}
		if n := number(t, db, "SELECT expires_at FROM sessions WHERE id = $1", id); n != h.ms.Load()+sessionLifetime.Milliseconds() {
			t.Errorf("refreshed session ends at %d", n)
		}
		for what, header := range map[string]string{"rotated": pair, "none": "x=y", "garbage": "certharbor_session=" + strings.Repeat("A", tokenLength)} {
			if w := h.call("POST", "/auth/refresh", "", cookie(header)); w.Code != http.StatusUnauthorized || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s: %d %s", what, w.Code, w.Body)
			}
		}
		// Of many refreshes at once one wins, and its cookie is the valid one.
		var mu sync.Mutex
		var winners []string
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if w := h.call("POST", "/auth/refresh", "", cookie(fresh)); w.Code == http.StatusNoContent {
					won, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
					mu.Lock()
					winners = append(winners, won)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(winners) != 1 || !authenticated(t, h, winners[0]) {
			t.Fatalf("winners: %q", winners)
		}
		h.advance(sessionLifetime)
		if w := h.call("POST", "/auth/refresh", "", cookie(winners[0])); w.Code != http.StatusUnauthorized {
			t.Errorf("expired: %d", w.Code)
		}
	})
}

func TestSessionOverTLS(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	overTLS := func(r *http.Request) { r.TLS = &tls.ConnectionState{} }
	pair := h.signIn(t, overTLS)
	if !strings.HasPrefix(pair, "__Host-certharbor_session=") {
		t.Errorf("cookie %s", pair)
	}
	if w := h.call("GET", "/auth/status", "", overTLS, cookie(pair)); !strings.Contains(w.Body.String(), `"authenticated":true`) {
		t.Errorf("over TLS: %s", w.Body)
	}
	if authenticated(t, h, pair) {
		t.Error("a __Host- cookie was taken over plain HTTP")
	}
}

// TestAnUnconfirmedSignInLeavesNothingOpen: the commit took place, the answer
// is 503, and the session nobody got does no harm.
func TestAnUnconfirmedSignInLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	config := dbtest.SQLiteConfig(t)
	uncertain := false
	config.CommitFault = func() bool { return uncertain }
	h := build(t, dbtest.Open(t, config))
	uncertain = true
	w := h.login(ada, adaPass)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Set-Cookie") != "" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = h.login(ada, wrongPas)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("wrong password: %d %s", w.Code, w.Body)
	}
	uncertain = false
	h.signIn(t)
}

func TestSessionOfACancelledRequest(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	pair := h.signIn(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Session(request(t, pair).WithContext(ctx))
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
