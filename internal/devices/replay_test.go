package devices_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const (
	requestID    = "0123456789abcDEF-_"
	anotherID    = "0123456789abcDEF-x"
	liveTokens   = `SELECT COUNT(*) FROM device_refresh_tokens WHERE rotated_at IS NULL`
	auditReplays = `SELECT COUNT(*) FROM audit_log WHERE action = 'device.refresh_replay' AND user_id = $1`
)

// refreshAs rotates a token with a request_id.
func (w *world) refreshAs(token, id string) answer {
	w.t.Helper()
	return w.call("", "POST /auth/refresh", m{"refresh_token": token, "request_id": id})
}

// docs/decisions/0010: the lost answer of a rotation does not strand a device.
func TestLostAnswerOfARefresh(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		lost := w.refreshAs(first, requestID).want(t, 200, 0)
		w.advance(12 * time.Hour)
		lostToo := w.refreshAs(first, requestID).want(t, 200, 0)
		w.advance(12 * time.Hour) // 24 h after the rotation, not after the replay
		got := w.refreshAs(first, requestID).want(t, 200, 0)
		if a, b := got.text("refresh_token"), lostToo.text("refresh_token"); a == b || a == lost.text("refresh_token") || a != got.text("session.refresh_token") {
			t.Errorf("not a fresh pair: %s", got.body)
		}
		if n := w.count(liveTokens); n != 1 {
			t.Errorf("%d live tokens", n)
		}
		if n := w.count(auditReplays, w.user); n != 2 {
			t.Errorf("%d audit entries", n)
		}
		w.refreshAs(lost.text("refresh_token"), requestID).want(t, 401, 10003) // beyond its first minute: somebody has what was never received
		if a := w.refresh(got.text("refresh_token")).want(t, 401, 10003); !strings.Contains(a.body, "family revoked") {
			t.Errorf("ended family: %s", a.body)
		}
	})
}

// The pair of a replay is as good as any: it works, rotates, and its use ends
// the replays.
func TestPairOfAReplay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		lost := w.refreshAs(first, requestID).want(t, 200, 0).text("refresh_token")
		got := w.refreshAs(first, requestID).want(t, 200, 0)
		w.notify(got.text("access_token")).want(t, 204, 0)
		w.refresh(lost).want(t, 401, 10003)
		next := w.refreshAs(got.text("refresh_token"), anotherID).want(t, 200, 0)
		w.refreshAs(first, requestID).want(t, 401, 10003)
		w.refreshAs(first, anotherID).want(t, 401, 10003)
		again := w.refreshAs(got.text("refresh_token"), anotherID).want(t, 200, 0)
		w.refresh(next.text("refresh_token")).want(t, 401, 10003)
		w.exec(`UPDATE users SET status = 'DISABLED' WHERE id = $1`, w.user)
		w.refreshAs(got.text("refresh_token"), anotherID).want(t, 403, 5022)
		w.exec(`UPDATE users SET status = 'ACTIVE' WHERE id = $1`, w.user)
		w.refresh(again.text("refresh_token")).want(t, 200, 0)
	})
}

// Anything but the same request_id in time, before the successor's use, is the
// reuse of a rotated token: 10003, and after a minute the family ends.
func TestWhatIsNoReplay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rotatedWith, presentedWith string
		between                    func(w *world, code, successor string)
		keeps                      bool // the family that is alive then is another one
	}{
		"no request_id":            {rotatedWith: requestID},
		"another request_id":       {rotatedWith: requestID, presentedWith: anotherID},
		"rotated without one":      {presentedWith: requestID},
		"a hash is not its origin": {rotatedWith: requestID, presentedWith: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"},
		"too late": {requestID, requestID, func(w *world, _, _ string) {
			w.advance(24 * time.Hour)
		}, false},
		"successor used": {requestID, requestID, func(w *world, _, successor string) {
			w.refreshAs(successor, anotherID).want(w.t, 200, 0)
		}, false},
		"registration code sent again": {requestID, requestID, func(w *world, code, _ string) {
			w.call("", registration, w.body(w.user, code, nil)).want(w.t, 200, 0)
		}, false},
		"registered again": {requestID, requestID, func(w *world, _, _ string) {
			w.register(w.user, nil).want(w.t, 200, 0)
		}, true},
		"family ended": {requestID, requestID, func(w *world, _, _ string) {
			w.exec(`UPDATE devices SET session_no = session_no + 1`)
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				w := newWorld(t, db)
				code := w.code(w.user)
				first := w.call("", registration, w.body(w.user, code, nil)).want(t, 201, 0).text("session.refresh_token")
				body := m{"refresh_token": first}
				if tt.rotatedWith != "" {
					body["request_id"] = tt.rotatedWith
				}
				successor := w.call("", "POST /auth/refresh", body).want(t, 200, 0).text("refresh_token")
				if tt.between != nil {
					tt.between(w, code, successor)
				}
				w.advance(time.Millisecond)
				alive := w.count(`SELECT session_no FROM devices`)
				delete(body, "request_id")
				if tt.presentedWith != "" {
					body["request_id"] = tt.presentedWith
				}
				for range 2 {
					if a := w.call("", "POST /auth/refresh", body).want(t, 401, 10003); a.key != "refresh_token_rotated" {
						t.Errorf("key %q", a.key)
					}
					w.advance(2 * time.Minute)
				}
				if kept := w.count(`SELECT session_no FROM devices`) == alive; kept != tt.keeps {
					t.Errorf("the family that is alive is kept: %v", kept)
				}
				if n := w.count(auditReplays, w.user); n != 0 {
					t.Errorf("%d replays in the audit log", n)
				}
			})
		})
	}
}

// Parallel calls with one request_id all get a pair; one of them is alive in the
// end, and whoever holds another finds that by making the call again.
func TestParallelReplays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		for range 3 {
			pairs := make([]string, 20)
			var wg sync.WaitGroup
			for i := range pairs {
				wg.Go(func() { pairs[i] = w.refreshAs(first, requestID).text("refresh_token") })
			}
			wg.Wait()
			if n := w.count(liveTokens); n != 1 {
				t.Fatalf("%d live tokens", n)
			}
			for _, pair := range pairs {
				if pair == "" {
					t.Error("a caller got no pair")
				}
			}
		}
		pair := w.refreshAs(first, requestID).want(t, 200, 0).text("refresh_token")
		w.refresh(pair).want(t, 200, 0)
	})
}

// A replay beside the use of the successor: one of them wins, never both.
func TestReplayBesideTheUseOfTheSuccessor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		for range 10 {
			second := w.refreshAs(first, requestID).want(t, 200, 0).text("refresh_token")
			var replayed, used answer
			var wg sync.WaitGroup
			wg.Go(func() { replayed = w.refreshAs(first, requestID) })
			wg.Go(func() { used = w.refresh(second) })
			wg.Wait()
			winner := replayed
			if used.status == 200 {
				winner = used
			}
			if (replayed.status == 200) == (used.status == 200) || replayed.code+used.code != 10003 {
				t.Fatalf("replay %s, use %s", replayed.body, used.body)
			}
			if n := w.count(liveTokens); n != 1 {
				t.Fatalf("%d live tokens", n)
			}
			first = winner.text("refresh_token")
		}
	})
}

// A replay that fails midway leaves the pair before it alive.
func TestReplayIsOneTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
	second := w.refreshAs(first, requestID).want(t, 200, 0).text("refresh_token")
	for _, table := range []string{"audit_log", "device_refresh_tokens"} {
		w.exec(`CREATE TRIGGER planted BEFORE INSERT ON ` + table + ` BEGIN SELECT RAISE(ABORT, 'planted'); END`)
		w.refreshAs(first, requestID).want(t, 500, 5017)
		w.exec(`DROP TRIGGER planted`)
	}
	if n := w.count(auditReplays, w.user); n != 0 {
		t.Errorf("%d audit entries", n)
	}
	w.refresh(second).want(t, 200, 0)
}

func TestRequestIDInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	good := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
	for _, id := range []any{
		"", strings.Repeat("a", 15), strings.Repeat("a", 65), strings.Repeat("a", 16) + "\n", strings.Repeat("a", 16) + "+",
		strings.Repeat("a", 16) + "ä", strings.Repeat("a", 16) + " ", 1234567890123456, []string{requestID},
	} {
		a := w.call("", "POST /auth/refresh", m{"refresh_token": good, "request_id": id}).want(t, 400, 5000)
		if !strings.Contains(a.body, "request_id") {
			t.Errorf("%q: the answer does not name the member: %s", id, a.body)
		}
	}
	w.call(session(w.user), "POST /auth/refresh", m{"request_id": requestID}).want(t, 200, 0) // means nothing to a session
	good = w.call("", "POST /auth/refresh", m{"refresh_token": good, "request_id": nil}).want(t, 200, 0).text("refresh_token")
	good = w.refreshAs(good, strings.Repeat("a", 16)).want(t, 200, 0).text("refresh_token")
	w.refreshAs(good, strings.Repeat("_", 64)).want(t, 200, 0)
	if n := w.count(`SELECT COUNT(*) FROM device_refresh_tokens WHERE CAST(request_hash AS TEXT) LIKE '%aaaa%'`); n != 0 {
		t.Error("a request_id is stored in the clear")
	}
}
