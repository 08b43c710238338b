package devices_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

// audited counts the entries of an action of the user.
func (w *world) audited(action string) int {
	return w.count(`SELECT COUNT(*) FROM audit_log WHERE action = $1 AND user_id = $2`, action, w.user)
}

func (w *world) family() int { return w.count(`SELECT session_no FROM devices`) }

// An agent whose answers are lost shows the token that it has, as agents of the
// field do that know no request_id. Until it uses one of the pairs it gets more.
func TestLostAnswersOfARefresh(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		lost := w.refresh(first).want(t, 200, 0)
		w.advance(5 * time.Second)
		lostToo := w.call("", "POST /auth/refresh", m{"refresh_token": first, "request_id": "short", "new": 1}).want(t, 200, 0)
		w.advance(24*time.Hour - 5*time.Second) // since the first answer
		if n := len(w.told(devices.NoticeRefresh)); n != 0 {
			t.Errorf("%d letters about a known address", n)
		}
		w.address = "198.51.100.7:99"
		got := w.refresh(first).want(t, 200, 0)
		if told := w.told(devices.NoticeRefresh); len(told) != 1 || told[0].Address != "198.51.100.7" || told[0].UserID != w.user {
			t.Errorf("letters about a new address: %v", told)
		}
		if n := w.audited("device.refresh_again"); n != 2 {
			t.Errorf("%d audit entries", n)
		}
		// The first that is used wins, by either token.
		w.notify(lostToo.text("access_token")).want(t, 401, 5018) // its hour is over
		w.notify(got.text("access_token")).want(t, 204, 0)
		w.notify(got.text("access_token")).want(t, 204, 0)
		for _, dead := range []string{first, lost.text("refresh_token"), lostToo.text("refresh_token")} {
			if a := w.refresh(dead).want(t, 401, 10003); a.key != "refresh_token_rotated" || strings.Contains(a.body, "family revoked") {
				t.Errorf("%s", a.body)
			}
		}
		next := w.refresh(got.text("refresh_token")).want(t, 200, 0)
		sibling := w.refresh(got.text("refresh_token")).want(t, 200, 0)
		w.refresh(next.text("refresh_token")).want(t, 200, 0)
		w.notify(got.text("access_token")).want(t, 204, 0) // a pair that was used is good until it expires
		w.notify(sibling.text("access_token")).want(t, 401, 5018)
		w.notify(next.text("access_token")).want(t, 204, 0)
	})
}

// A pair that was kept unused for longer than a day is good still; its
// predecessor is not, and ends nothing.
func TestNothingIsAnsweredAgainAfterADay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		second := w.refresh(first).want(t, 200, 0)
		w.advance(24*time.Hour + time.Millisecond)
		for range 2 {
			w.refresh(first).want(t, 401, 10003)
			w.advance(time.Hour)
		}
		w.refresh(second.text("refresh_token")).want(t, 200, 0)
	})
}

// Two processes of an agent race: the loser shows the token that both began
// with 62 seconds and ten minutes after the winner's refresh, and goes on with
// the winner's pair. Later than a quarter of an hour it is taken for theft, as a
// sibling is that was not used first.
func TestOldTokenShownAfterTheUse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		old := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		shown := map[string]string{"predecessor": old, "sibling": w.refresh(old).want(t, 200, 0).text("refresh_token")}
		for name := range shown {
			pair := w.register(w.user, nil).want(t, 200, 0) // a new family for each
			first := pair.text("session.refresh_token")
			other := w.refresh(first).want(t, 200, 0).text("refresh_token")
			winner := w.refresh(first).want(t, 200, 0)
			w.notify(winner.text("access_token")).want(t, 204, 0)
			token := map[string]string{"predecessor": first, "sibling": other}[name]
			alive, reuses := w.family(), w.audited("device.refresh_reuse")
			for _, later := range []time.Duration{62 * time.Second, 10*time.Minute - 62*time.Second, 5 * time.Minute} {
				w.advance(later)
				w.refresh(token).want(t, 401, 10003)
				w.notify(winner.text("access_token")).want(t, 204, 0)
			}
			winner = w.refresh(winner.text("refresh_token")).want(t, 200, 0)
			w.advance(time.Second)
			if a := w.refresh(token).want(t, 401, 10003); strings.Contains(a.body, "family revoked") {
				t.Errorf("%s: %s", name, a.body)
			}
			w.notify(winner.text("access_token")).want(t, 401, 5018)
			for range 2 {
				if a := w.refresh(winner.text("refresh_token")).want(t, 401, 10003); !strings.Contains(a.body, "family revoked") {
					t.Errorf("ended family: %s", a.body)
				}
				w.refresh(token).want(t, 401, 10003)
			}
			if w.family() != alive+1 || w.audited("device.refresh_reuse") != reuses+1 {
				t.Errorf("%s: family %d after %d, %d entries after %d", name, w.family(), alive, w.audited("device.refresh_reuse"), reuses)
			}
		}
		// Tokens of former families end no later one.
		again := w.register(w.user, nil).want(t, 200, 0)
		w.advance(time.Hour)
		for _, token := range shown {
			w.refresh(token).want(t, 401, 10003)
		}
		w.refresh(again.text("session.refresh_token")).want(t, 200, 0)
	})
}

// Twenty calls with one token at once all get a pair, on two nodes; of twenty
// first uses at once, by either token, one wins.
func TestFirstUseWinsOnTwoNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		nodes := []*web.Mux{w.mux, w.mux}
		if db.Dialect() == sqldb.Postgres {
			_, nodes[1] = w.node()
		}
		token := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		for range 3 {
			pairs := make([]answer, 20)
			var wg sync.WaitGroup
			for i := range pairs {
				wg.Go(func() { pairs[i] = w.callOn(nodes[i%2], "", "POST /auth/refresh", m{"refresh_token": token}) })
			}
			wg.Wait()
			var won atomic.Int64
			var next atomic.Value
			for i, pair := range pairs {
				pair.want(t, 200, 0)
				wg.Go(func() {
					used := w.callOn(nodes[i%2], pair.text("access_token"), "POST /apiv1/devices/self/notify", m{"events": []any{}})
					if i%4 == 0 {
						used = w.callOn(nodes[i%2], "", "POST /auth/refresh", m{"refresh_token": pair.text("refresh_token")})
					}
					switch {
					case used.status < 300:
						won.Add(1)
						next.Store(pair.text("refresh_token"))
					case used.code != 5018 && used.code != 10003:
						t.Error(used.body)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("%d first uses", won.Load())
			}
			token = next.Load().(string)
		}
		w.refresh(token).want(t, 200, 0)
	})
}

// Refreshing in a loop, showing one token in a loop and registering in a loop
// fill no table.
func TestRefreshTokensAreBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		rows := func(most int) {
			t.Helper()
			if n := w.count(`SELECT COUNT(*) FROM device_refresh_tokens`); n > most {
				t.Errorf("%d rows, at most %d", n, most)
			}
		}
		token := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		for range devices.KeptPairs + 20 {
			token = w.refresh(token).want(t, 200, 0).text("refresh_token")
		}
		rows(devices.KeptPairs + 2)
		for range devices.KeptSiblings + 20 {
			w.refresh(token).want(t, 200, 0)
		}
		rows(devices.KeptPairs + devices.KeptSiblings + 2)
		if n := w.count(`SELECT COUNT(*) FROM device_refresh_tokens WHERE used_at IS NULL`); n != devices.KeptSiblings {
			t.Errorf("%d unused pairs, want %d", n, devices.KeptSiblings)
		}
		w.refresh(token).want(t, 200, 0)
		key := fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_authenticate", w.user)
		for range devices.KeptFamilies + 10 {
			w.call(key, "POST /apiv1/me/devices", m{"device_public_id": publicID, "dev_pk": devPK}).want(t, 200, 0)
		}
		rows(devices.KeptFamilies + 1)
	})
}

// A token that is shown again and again, each time from another address, fills
// neither the log nor the owner's mailbox. Waiting strands no device: agents
// repeat what is 429, and the pairs they have stay good.
func TestAnswersAgainAreBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0).text("session.refresh_token")
		last := w.refresh(first).want(t, 200, 0)
		for i := range devices.AgainPerHour {
			w.address = fmt.Sprintf("198.51.100.%d:99", i)
			last = w.refresh(first).want(t, 200, 0)
		}
		for i := range 3 {
			w.address = fmt.Sprintf("203.0.113.%d:99", i)
			w.refresh(first).want(t, 429, 5013)
		}
		if n := w.audited("device.refresh_again"); n != devices.AgainPerHour {
			t.Errorf("%d audit entries", n)
		}
		if n := len(w.told(devices.NoticeRefresh)); n != devices.AgainPerHour {
			t.Errorf("%d letters", n)
		}
		w.advance(time.Hour)
		w.refresh(first).want(t, 200, 0)
		w.refresh(last.text("refresh_token")).want(t, 200, 0)
	})
}

// A poll writes nothing: the first use of a pair is one write, on whatever node
// its token comes again. A device is served though that write fails.
func TestFirstUseIsOneWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	token := w.register(w.user, nil).want(t, 201, 0).text("session.access_token")
	w.exec(`CREATE TABLE writes (n INTEGER)`)
	w.exec(`CREATE TRIGGER planted BEFORE UPDATE OF used_at ON device_refresh_tokens BEGIN SELECT RAISE(ABORT, 'planted'); END`)
	w.notify(token).want(t, 204, 0)
	w.exec(`DROP TRIGGER planted`)
	w.exec(`CREATE TRIGGER counted AFTER UPDATE ON device_refresh_tokens BEGIN INSERT INTO writes VALUES (1); END`)
	for range 3 {
		for range 3 {
			w.notify(token).want(t, 204, 0)
		}
		w.svc, w.mux = w.node()
	}
	if n := w.count(`SELECT COUNT(*) FROM writes`); n != 1 {
		t.Errorf("%d writes", n)
	}
}
