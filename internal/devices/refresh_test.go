package devices_test

import (
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func noWords(t *testing.T, a answer) {
	t.Helper()
	for _, word := range []string{"rotated", "family revoked", "WRAP_PENDING"} {
		if strings.Contains(a.body, word) {
			t.Errorf("%q in %s", word, a.body)
		}
	}
}

func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0)
		second := w.refresh(first.text("session.refresh_token")).want(t, 200, 0)
		for _, name := range []string{"access_token", "refresh_token", "token_type", "expires_in"} {
			if second.member(name) == nil || second.member(name) != second.member("session."+name) {
				t.Errorf("%s: %v beside %v", name, second.member(name), second.member("session."+name))
			}
		}
		if second.text("refresh_token") == first.text("session.refresh_token") || second.id("expires_in") != 3600 {
			t.Errorf("second: %s", second.body)
		}
		w.notify(first.text("session.access_token")).want(t, 204, 0)
		w.notify(second.text("access_token")).want(t, 204, 0)
		w.advance(30*24*time.Hour - time.Second)
		third := w.refresh(second.text("refresh_token")).want(t, 200, 0)
		w.notify(second.text("access_token")).want(t, 401, 5018)
		w.advance(30 * 24 * time.Hour)
		noWords(t, w.refresh(third.text("refresh_token")).want(t, 401, 5018))
		noWords(t, w.refresh(second.text("refresh_token")).want(t, 401, 5018))
		if err := w.svc.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.count(`SELECT COUNT(*) FROM device_refresh_tokens`); n != 0 {
			t.Errorf("%d tokens after the sweep", n)
		}
	})
}

// Refresh tokens outlive a clock that is a year ahead for some hours (threats.md
// scenario 20).
func TestRefreshTokensOutliveAWrongClock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		token := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		const year = 365 * 24 * time.Hour
		for _, by := range []time.Duration{0, time.Hour, year, time.Hour, -year} {
			w.advance(by)
			if err := w.svc.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.refresh(token).want(t, 200, 0)
	})
}

func TestRefreshRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		a := w.register(w.user, nil).want(t, 201, 0)
		good := a.text("session.refresh_token")
		for _, token := range []string{
			"x", "rt_", "rt_.", "ak_abc", good + "x", good[:len(good)-1], strings.ToUpper(good), "rt_" + strings.Repeat("0", 32) + ".x",
			strings.Repeat("x", 1<<13), a.text("session.access_token"), good[:35] + ".' OR 1=1 --",
		} {
			noWords(t, w.refresh(token).want(t, 401, 5018))
		}
		for _, body := range []string{`{"refresh_token":5}`, `[]`, `{`, `{"refresh":"x"}`} {
			noWords(t, w.call("", "POST /auth/refresh", body).want(t, 400, 5000))
		}
		w.exec(`UPDATE users SET status = 'DISABLED' WHERE id = $1`, w.user)
		noWords(t, w.refresh(good).want(t, 503, 5014))
		w.exec(`UPDATE users SET status = 'ACTIVE' WHERE id = $1`, w.user)
		good = w.refresh(good).want(t, 200, 0).text("refresh_token")
		w.call(session(w.user), deleteLine(w.user, a.id("device.id")), nil).want(t, 204, 0)
		noWords(t, w.refresh(good).want(t, 401, 5018))
	})
}

func TestRefreshOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	noWords(t, w.call("", "POST /auth/refresh", nil).want(t, 401, 5018))
	noWords(t, w.call("u=0; other=1", "POST /auth/refresh", "{}").want(t, 401, 5018)) // a browser whose session has ended
	for _, body := range []any{nil, "{}", m{"refresh_token": ""}, m{"request_id": "x", "more": 1}} {
		if body != nil {
			noWords(t, w.call("", "POST /auth/refresh", body).want(t, 400, 5000))
		}
		a := w.call(session(w.user), "POST /auth/refresh", body).want(t, 200, 0)
		if a.header.Get("Set-Cookie") != session(w.user) || a.member("authenticated") != true || a.member("access_token") != nil {
			t.Errorf("%s with cookie %q", a.body, a.header.Get("Set-Cookie"))
		}
	}
}
