package devices_test

import (
	"errors"
	"fmt"
	"maps"
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

const (
	devFP   = "+JXg9p9JRv5nK/9+u0d/McJ38fgZdGEnbrkNt3SHhHY=" // of devPK
	thirdPK = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQI="
)

// byKey registers publicID with an API key that has the action.
func (w *world) byKey(action string, more m) answer {
	w.t.Helper()
	b := m{"device_public_id": publicID, "dev_pk": devPK, "name": "web 1", "platform": "linux"}
	maps.Copy(b, more)
	return w.call(fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_%s", w.user, action), "POST /apiv1/me/devices", b)
}

func (w *world) confirm(id int64, fingerprint string) answer {
	w.t.Helper()
	return w.call(session(w.user), fmt.Sprintf("POST /apiv1/me/devices/%d/confirm-key", id), m{"device_keyfp_b64": fingerprint})
}

// record is the device as the list shows it.
func (w *world) record() answer {
	w.t.Helper()
	return w.call(session(w.user), "GET /apiv1/me/devices/by-public-id/"+publicID, nil).want(w.t, 200, 0)
}

// Every way to another key of a known device: which is good at once, and which
// waits for the owner.
func TestWhoMayRekey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		register func(w *world, id int64) answer
		waits    bool
	}{
		"a code": {func(w *world, _ int64) answer { return w.register(w.user, m{"dev_pk": otherPK}) }, true},
		"a code for this device": {func(w *world, id int64) answer {
			return w.call("", registration, w.body(w.user, w.codeFor(id, nil), m{"dev_pk": otherPK}))
		}, false},
		"an API key": {func(w *world, _ int64) answer { return w.byKey("authenticate", m{"dev_pk": otherPK}) }, true},
		"a session and a code": {func(w *world, _ int64) answer {
			return w.call(session(w.user), "POST /apiv1/me/devices", w.body(w.user, w.code(w.user), m{"dev_pk": otherPK}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				w := newWorld(t, db)
				mine := w.register(w.user, nil).want(t, 201, 0)
				id := mine.id("device.id")
				got := tt.register(w, id).want(t, 200, 0)
				if got.id("device.id") != id || got.text("session.refresh_token") == "" {
					t.Fatalf("%s", got.body)
				}
				kind, status, fp := devices.NoticeKey, "ACTIVE", got.text("device.device_keyfp_b64")
				if tt.waits {
					kind, status = devices.NoticeWaits, "PENDING"
				}
				if record := w.record(); record.text("key_status") != status || got.text("device.key_status") != status || tt.waits != (fp == devFP) || tt.waits != (record.member("pending_key") != nil) {
					t.Errorf("answer %s, record %s", got.body, record.body)
				}
				if len(w.told(kind)) != 1 || len(w.told(devices.NoticeNew)) != 1 || len(w.keys.seen) == 1 == tt.waits {
					t.Errorf("letters %v, keys %v", w.letters.seen, w.keys.seen)
				}
				w.notify(got.text("session.access_token")).want(t, 204, 0)
				old := 401
				if tt.waits {
					old = 204
				}
				if a := w.notify(mine.text("session.access_token")); a.status != old {
					t.Errorf("the old key's token: %s", a.body)
				}
			})
		})
	}
}

// codeFor approves a login for one of the user's devices; started is what the
// device says of itself.
func (w *world) codeFor(id int64, start m) string {
	w.t.Helper()
	b := m{"action": "device_start"}
	maps.Copy(b, start)
	started := w.call("", "POST /auth/device", b).want(w.t, 200, 0)
	w.call(session(w.user), "POST /auth/device", m{"action": "device_verify", "user_code": started.text("user_code"), "device_id": id}).want(w.t, 200, 0)
	return w.call("", "POST /auth/device", m{"action": "device_poll", "device_code": started.text("device_code"), "device_id": "7"}).want(w.t, 200, 0).text("registration_code")
}

// While a key waits, both families go on; when it is confirmed, the old one
// ends. A confirmation names the key that was looked at.
func TestConfirmingAKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		mine := w.register(w.user, nil).want(t, 201, 0)
		id := mine.id("device.id")
		w.confirm(id, "x").want(t, 404, 5003)
		theirs := w.byKey("authenticate", m{"dev_pk": thirdPK}).want(t, 200, 0)
		shown := w.record().text("pending_key.device_keyfp_b64")
		// Another one takes its place between looking and confirming.
		waiting := w.byKey("authenticate", m{"dev_pk": otherPK, "name": "wiped"}).want(t, 200, 0)
		w.confirm(id, shown).want(t, 409, 5030)
		w.notify(theirs.text("session.access_token")).want(t, 401, 5018)
		w.refresh(theirs.text("session.refresh_token")).want(t, 401, 10003)

		for _, a := range []answer{mine, waiting} {
			next := w.refresh(a.text("session.refresh_token")).want(t, 200, 0)
			w.notify(next.text("access_token")).want(t, 204, 0)
		}
		again := w.byKey("authenticate", m{"dev_pk": otherPK}).want(t, 200, 0) // the same key: no further letter
		w.notify(waiting.text("session.access_token")).want(t, 401, 5018)
		if n := len(w.told(devices.NoticeWaits)); n != 2 {
			t.Errorf("%d letters", n)
		}
		shown = w.record().text("pending_key.device_keyfp_b64")
		w.call(session(w.other), fmt.Sprintf("POST /apiv1/me/devices/%d/confirm-key", id), m{"device_keyfp_b64": shown}).want(t, 404, 5003)
		w.keys.refuse = errors.New("planted")
		w.confirm(id, shown).want(t, 500, 5017)
		w.notify(mine.text("session.access_token")).want(t, 204, 0)
		w.keys.refuse, w.keys.seen = nil, nil
		for range 2 {
			if a := w.confirm(id, shown).want(t, 200, 0); a.text("key_status") != "ACTIVE" || a.text("device_keyfp_b64") != shown || a.text("name") != "web 1" {
				t.Errorf("%s", a.body)
			}
		}
		if len(w.keys.seen) != 1 || len(w.told(devices.NoticeKey)) != 1 {
			t.Errorf("keys %v, letters %v", w.keys.seen, w.letters.seen)
		}
		w.notify(mine.text("session.access_token")).want(t, 401, 5018)
		w.notify(again.text("session.access_token")).want(t, 204, 0)
		w.refresh(again.text("session.refresh_token")).want(t, 200, 0)

		// A refused key's tokens are dead, and stay so: no number is used twice.
		bad := w.byKey("authenticate", nil).want(t, 200, 0)
		refuse := fmt.Sprintf("DELETE /apiv1/me/devices/%d/confirm-key", id)
		w.call(session(w.user), refuse, nil).want(t, 204, 0)
		w.call(session(w.user), refuse, nil).want(t, 404, 5003)
		w.byKey("authenticate", m{"dev_pk": otherPK}).want(t, 200, 0)
		w.notify(bad.text("session.access_token")).want(t, 401, 5018)
		w.refresh(bad.text("session.refresh_token")).want(t, 401, 10003)

		// A deleted device takes its waiting key along.
		gone := w.byKey("authenticate", nil).want(t, 200, 0)
		w.call(session(w.user), deleteLine(w.user, id), nil).want(t, 204, 0)
		w.confirm(id, devFP).want(t, 404, 5003)
		w.notify(gone.text("session.access_token")).want(t, 403, 5022)
	})
}

// Reuse ends the family that it happened in: not the device's for a waiting
// key's, nor the other way round.
func TestReuseEndsOneFamily(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		mine := w.register(w.user, nil).want(t, 201, 0)
		waiting := w.byKey("authenticate", m{"dev_pk": otherPK}).want(t, 200, 0)
		reuse := func(a answer) {
			next := w.refresh(a.text("session.refresh_token")).want(t, 200, 0)
			w.notify(next.text("access_token")).want(t, 204, 0)
			w.advance(16 * time.Minute)
			w.refresh(a.text("session.refresh_token")).want(t, 401, 10003)
			w.notify(next.text("access_token")).want(t, 401, 5018)
		}
		reuse(waiting)
		w.notify(mine.text("session.access_token")).want(t, 204, 0)
		waiting = w.byKey("authenticate", m{"dev_pk": otherPK}).want(t, 200, 0)
		reuse(mine)
		w.notify(waiting.text("session.access_token")).want(t, 204, 0)
	})
}

// An approval is good for what was shown and chosen, and for nothing else.
func TestApprovalIsBoundToWhatWasShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	id := w.register(w.user, nil).want(t, 201, 0).id("device.id")
	other := "f" + publicID[1:]
	w.call("", registration, w.body(w.user, w.codeFor(id, nil), m{"device_public_id": other})).want(t, 400, 5000)
	said := m{"device_public_id": publicID, "dev_pk": otherPK}
	code := w.codeFor(id, said)
	w.call("", registration, w.body(w.user, code, m{"dev_pk": thirdPK})).want(t, 400, 5000)
	w.call("", registration, w.body(w.user, code, m{"device_public_id": other, "dev_pk": otherPK})).want(t, 400, 5000)
	w.call("", registration, w.body(w.user, code, m{"dev_pk": otherPK})).want(t, 200, 0)
	if n := w.count(`SELECT COUNT(*) FROM devices`); n != 1 {
		t.Errorf("%d devices", n)
	}

	started := w.call("", "POST /auth/device", m{"action": "device_start", "device_public_id": publicID, "dev_pk": devPK}).want(t, 200, 0)
	shown := w.call(session(w.user), "GET /auth/device?user_code="+started.text("user_code"), nil).want(t, 200, 0)
	if shown.id("device_id") != id || shown.member("key_changed") != true || shown.text("device_public_id") != strings.ToLower(publicID) {
		t.Errorf("%s", shown.body)
	}
	foreign := w.call(session(w.other), "GET /auth/device?user_code="+started.text("user_code"), nil).want(t, 200, 0)
	if foreign.id("device_id") != 0 {
		t.Errorf("another user's device is named: %s", foreign.body)
	}
	verify := m{"action": "device_verify", "user_code": started.text("user_code")}
	for value, status := range map[any]int{int64(999): 404, "999": 404, 1.5: 400, "x": 400, -1: 400, true: 400} {
		verify["device_id"] = value
		if a := w.call(session(w.user), "POST /auth/device", verify); a.status != status {
			t.Errorf("%v: %s", value, a.body)
		}
	}
	second := w.register(w.user, m{"device_public_id": other}).want(t, 201, 0).id("device.id")
	verify["device_id"] = second
	w.call(session(w.user), "POST /auth/device", verify).want(t, 400, 5000)
	for _, start := range []m{{"device_public_id": "x"}, {"dev_pk": "AAAA"}} {
		start["action"] = "device_start"
		w.call("", "POST /auth/device", start).want(t, 400, 5000)
	}
}

// A key that was revoked since the request was let in registers nothing; keys
// that wait one after the other are bounded.
func TestKeysThatRegister(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		w.register(w.user, nil).want(t, 201, 0)
		for i := range 10 {
			w.byKey("authenticate", m{"dev_pk": "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJC" + string(rune('A'+i)) + "I="}).want(t, 200, 0)
		}
		w.byKey("authenticate", m{"dev_pk": otherPK}).want(t, 429, 5013)
		w.deps.APIKeys = revokedKeys{}
		_, mux := w.node()
		body := m{"device_public_id": "f" + publicID[1:], "dev_pk": devPK}
		w.callOn(mux, fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_authenticate", w.user), "POST /apiv1/me/devices", body).want(t, 401, 5018)
		if n := w.count(`SELECT COUNT(*) FROM devices`); n != 1 {
			t.Errorf("%d devices", n)
		}
	})
}

// Two nodes register other keys and confirm at once: one key is the device's in
// the end, and only its family and that of the key that waits are alive.
func TestKeysOnTwoNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		nodes := []*web.Mux{w.mux, w.mux}
		if db.Dialect() == sqldb.Postgres {
			_, nodes[1] = w.node()
		}
		id := w.register(w.user, nil).want(t, 201, 0).id("device.id")
		w.byKey("authenticate", m{"dev_pk": otherPK}).want(t, 200, 0)
		shown := w.record().text("pending_key.device_keyfp_b64")
		var confirmed atomic.Int64
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				line := fmt.Sprintf("POST /apiv1/me/devices/%d/confirm-key", id)
				switch a := w.callOn(nodes[i%2], session(w.user), line, m{"device_keyfp_b64": shown}); a.status {
				case 200:
					confirmed.Add(1)
				case 409, 404:
				default:
					t.Error(a.body)
				}
			})
			wg.Go(func() {
				key := fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_authenticate", w.user)
				pk := []string{otherPK, thirdPK}[i%2]
				w.callOn(nodes[i%2], key, "POST /apiv1/me/devices", m{"device_public_id": publicID, "dev_pk": pk})
			})
		}
		wg.Wait()
		record := w.record()
		if fp := record.text("device_keyfp_b64"); confirmed.Load() > 0 != (fp == shown) || confirmed.Load() == 0 && fp != devFP {
			t.Errorf("%d confirmed, %s", confirmed.Load(), record.body)
		}
		if n := w.count(`SELECT COUNT(*) FROM devices d JOIN device_waiting_keys w ON w.device_id = d.id WHERE w.public_key = d.public_key OR w.session_no = d.session_no`); n != 0 {
			t.Errorf("a key waits that is the device's already: %s", record.body)
		}
	})
}

// Onboarding scripts register again at the public door, with their cookie and
// the refresh token; without the cookie the token keeps the key that it was
// given for.
func TestRegisteringAgainWithARefreshToken(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		first := w.register(w.user, nil).want(t, 201, 0)
		body := func(a answer, pk string) m {
			return m{"user_id": w.user, "device_public_id": publicID, "dev_pk": pk, "refresh_token": a.text("session.refresh_token")}
		}
		second := w.call(session(w.user), registration, body(first, devPK)).want(t, 200, 0)
		third := w.call("", registration, body(second, devPK)).want(t, 200, 0)
		w.call("", registration, body(second, devPK)).want(t, 401, 10003)
		if a := w.call("", registration, body(third, otherPK)).want(t, 400, 5000); !strings.Contains(a.body, "dev_pk") {
			t.Errorf("%s", a.body)
		}
		fourth := w.call(session(w.other), registration, body(third, devPK)).want(t, 200, 0) // the token is enough
		fifth := w.call(session(w.user), registration, body(fourth, otherPK)).want(t, 200, 0)
		if fifth.id("device.id") != first.id("device.id") || fifth.text("device.key_status") != "ACTIVE" || len(w.keys.seen) != 1 {
			t.Errorf("%s", fifth.body)
		}
		if a := w.call("", registration, m{"user_id": w.user, "device_public_id": publicID, "dev_pk": devPK}).want(t, 400, 5000); !strings.Contains(a.body, "registration_code") {
			t.Errorf("%s", a.body)
		}
	})
}
