package devices_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestRegistrationByCode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		a := w.register(w.user, m{"push_token": "planted-push-secret"}).want(t, 201, 0)
		id := a.id("device.id")
		if id == 0 || a.text("device.device_public_id") != strings.ToLower(publicID) || a.text("device.status") != "ACTIVE" ||
			a.text("device.name") != "device 00112233" || a.text("device.ip") != "unknown" || a.text("session.token_type") != "Bearer" || a.id("session.expires_in") != 3600 ||
			a.text("device.device_keyfp_b64") != "+JXg9p9JRv5nK/9+u0d/McJ38fgZdGEnbrkNt3SHhHY=" {
			t.Fatalf("answer: %s", a.body)
		}
		if want := fmt.Sprintf("/apiv1/users/%d/devices/by-public-id/%s", w.user, strings.ToLower(publicID)); a.header.Get("Location") != want {
			t.Errorf("Location %q, want %q", a.header.Get("Location"), want)
		}
		if strings.Contains(a.body, "planted") || strings.Contains(a.body, devPK) {
			t.Errorf("a secret in the answer: %s", a.body)
		}
		if n := w.count(`SELECT COUNT(*) FROM devices WHERE push_token IS NOT NULL`); n != 1 {
			t.Errorf("%d push tokens stored", n)
		}
		w.notify(a.text("session.access_token")).want(t, 204, 0)

		again := w.register(w.user, m{"device_public_id": strings.ToLower(publicID), "name": "web 1"}).want(t, 200, 0)
		if again.id("device.id") != id || again.text("device.name") != "web 1" || again.text("device.platform") != "linux" {
			t.Errorf("known device: %s", again.body)
		}
		w.notify(a.text("session.access_token")).want(t, 401, 5018)
		w.refresh(a.text("session.refresh_token")).want(t, 401, 10003)
		w.notify(again.text("session.access_token")).want(t, 204, 0)
		if len(w.keys.seen) != 0 {
			t.Errorf("key listener told of %v", w.keys.seen)
		}
	})
}

func TestRegistrationBySessionAndKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		devicesPath := fmt.Sprintf("POST /apiv1/users/%d/devices", w.user)
		bare := m{"device_public_id": publicID, "dev_pk": devPK}
		w.call(session(w.user), devicesPath, bare).want(t, 400, 5000)
		w.call("", devicesPath, bare).want(t, 401, 5018)
		w.call(session(w.other), devicesPath, w.body(w.user, w.code(w.user), nil)).want(t, 403, 5022)
		w.call(session(w.other), "POST /apiv1/me/devices", w.body(w.user, w.code(w.user), nil)).want(t, 403, 5022)
		w.call(session(w.user), devicesPath, m{"device_public_id": publicID, "dev_pk": devPK, "refresh_token": "rt_x.y"}).want(t, 401, 5018)
		first := w.call(session(w.user), devicesPath, w.body(w.user, w.code(w.user), nil)).want(t, 201, 0)

		// A known device comes back with its last refresh token alone.
		byToken := m{"device_public_id": publicID, "dev_pk": devPK, "refresh_token": first.text("session.refresh_token")}
		w.call(session(w.other), "POST /apiv1/me/devices", byToken).want(t, 401, 5018)
		second := w.call(session(w.user), "POST /apiv1/me/devices", byToken).want(t, 200, 0)
		if second.id("device.id") != first.id("device.id") {
			t.Errorf("another id: %s", second.body)
		}
		w.call(session(w.user), devicesPath, byToken).want(t, 401, 10003)
		foreign := m{"device_public_id": strings.Replace(publicID, "0", "1", 1), "dev_pk": devPK, "refresh_token": second.text("session.refresh_token")}
		w.call(session(w.user), devicesPath, foreign).want(t, 401, 5018)
		w.refresh(second.text("session.refresh_token")).want(t, 200, 0)

		// An API key needs nothing else, but the right one.
		key := fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_authenticate", w.user)
		third := w.call(key, "POST /apiv1/me/devices", bare).want(t, 200, 0)
		if third.id("device.id") != first.id("device.id") {
			t.Errorf("another id: %s", third.body)
		}
		w.call(fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_validate", w.user), "POST /apiv1/me/devices", bare).want(t, 403, 5022)
		w.call(fmt.Sprintf("ak_%d_devices_*_write", w.user), "POST /apiv1/me/devices", bare).want(t, 403, 5022)
		w.call(third.text("session.access_token"), "POST /apiv1/me/devices", bare).want(t, 401, 5018)
	})
}

// threats.md scenario 17: a public id of another user makes another device; a
// new key is told of in the transaction, and old tokens are dead.
func TestDeviceTakeover(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		mine := w.register(w.user, nil).want(t, 201, 0)
		theirs := w.register(w.other, m{"dev_pk": otherPK}).want(t, 201, 0)
		if mine.id("device.id") == theirs.id("device.id") {
			t.Fatal("one row for two users")
		}
		w.notify(mine.text("session.access_token")).want(t, 204, 0)
		if len(w.keys.seen) != 0 {
			t.Errorf("key listener told of %v", w.keys.seen)
		}
		bySession := func(code string, more m) answer {
			return w.call(session(w.user), "POST /apiv1/me/devices", w.body(w.user, code, more))
		}
		wiped := bySession(w.code(w.user), m{"dev_pk": otherPK}).want(t, 200, 0)
		if wiped.id("device.id") != mine.id("device.id") || len(w.keys.seen) != 1 || w.keys.seen[0].ID != mine.id("device.id") || w.keys.seen[0].PublicKey[0] != 9 {
			t.Errorf("%s; told of %v", wiped.body, w.keys.seen)
		}
		w.notify(mine.text("session.access_token")).want(t, 401, 5018)
		w.refresh(mine.text("session.refresh_token")).want(t, 401, 10003)
		w.notify(wiped.text("session.access_token")).want(t, 204, 0)
		if n := w.count(`SELECT COUNT(*) FROM audit_log WHERE action = 'device.reregister' AND detail LIKE '%"key_changed":true%'`); n != 1 {
			t.Errorf("%d audit entries of the new key", n)
		}

		// The listener's failure undoes the registration; the code is good still.
		w.keys.refuse = errors.New("planted")
		code := w.code(w.user)
		bySession(code, nil).want(t, 500, 5017)
		w.notify(wiped.text("session.access_token")).want(t, 204, 0)
		w.keys.refuse = nil
		bySession(code, nil).want(t, 200, 0)
	})
}

// threats.md scenario 5.
func TestCodeIsGoodOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		code := w.code(w.user)
		w.call("", registration, w.body(w.other, code, nil)).want(t, 400, 5000)
		var created, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				a := w.call("", registration, w.body(w.user, code, m{"device_public_id": fmt.Sprintf("%08d%s", i, publicID[8:])}))
				switch a.status {
				case 201:
					created.Add(1)
				case 400:
					refused.Add(1)
				default:
					t.Errorf("%d: %s", a.status, a.body)
				}
			})
		}
		wg.Wait()
		if created.Load() != 1 || refused.Load() != 99 {
			t.Errorf("%d created, %d refused", created.Load(), refused.Load())
		}
		if n := w.count(`SELECT COUNT(*) FROM devices`); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

// decisions.md 7.5: a lost answer does not strand a device.
func TestUsedCodeOfTheSameDevice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		code := w.code(w.user)
		first := w.call("", registration, w.body(w.user, code, nil)).want(t, 201, 0)
		w.advance(60 * time.Second)
		second := w.call("", registration, w.body(w.user, code, nil)).want(t, 200, 0)
		if first.id("device.id") != second.id("device.id") || first.text("session.refresh_token") == second.text("session.refresh_token") {
			t.Errorf("first %s second %s", first.body, second.body)
		}
		w.notify(second.text("session.access_token")).want(t, 204, 0)
		w.notify(first.text("session.access_token")).want(t, 401, 5018) // the answer that never came
		w.call("", registration, w.body(w.user, code, m{"dev_pk": otherPK})).want(t, 400, 5000)
		w.call("", registration, w.body(w.user, code, m{"device_public_id": "f" + publicID[1:]})).want(t, 400, 5000)
		w.call("", registration, w.body(w.other, code, nil)).want(t, 400, 5000)
		w.advance(time.Second)
		w.call("", registration, w.body(w.user, code, nil)).want(t, 400, 5000)
		w.refresh(second.text("session.refresh_token")).want(t, 200, 0)
		if n := w.count(`SELECT COUNT(*) FROM devices`); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestCodeExpiresAndNeedsAnActiveUser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		code := w.code(w.user)
		w.advance(10 * time.Minute)
		w.call("", registration, w.body(w.user, code, nil)).want(t, 400, 5000)
		code = w.code(w.user)
		w.exec(`UPDATE users SET status = 'DISABLED' WHERE id = $1`, w.user)
		w.call("", registration, w.body(w.user, code, nil)).want(t, 400, 5000)
		w.exec(`UPDATE users SET status = 'ACTIVE' WHERE id = $1`, w.user)
		w.call("", registration, w.body(w.user, code, nil)).want(t, 201, 0)
	})
}

func TestWrongCodesAreThrottled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		w.deps.WrongCodes = 5
		w.svc, w.mux = w.node()
		code := w.code(w.user)
		wrong := []func() answer{
			func() answer { return w.call("", registration, w.body(w.user, "rc_wrong", nil)) },
			func() answer {
				return w.call("", "POST /auth/device", m{"action": "device_poll", "device_code": "dc_wrong"})
			},
			func() answer {
				return w.call(session(w.user), "POST /auth/device", m{"action": "device_verify", "user_code": "AAAA-0000"})
			},
		}
		for i := range 5 {
			wrong[i%3]().want(t, 400, 5000)
		}
		for _, guess := range wrong {
			if a := guess().want(t, 429, 5013); a.header.Get("Retry-After") != "3600" {
				t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
			}
		}
		// The right one of 256 random bits is no guess.
		w.call("", registration, w.body(w.user, code, nil)).want(t, 201, 0)
		w.address = "192.0.2.2:1000"
		wrong[0]().want(t, 400, 5000)
	})
}

func TestRegistrationInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	code := w.code(w.user)
	for name, more := range map[string]m{
		"public id":      {"device_public_id": "00112233-4455-6677-8899-AABBCCDDEEF"},
		"public id word": {"device_public_id": "g0112233-4455-6677-8899-AABBCCDDEEFF"},
		"dev_pk short":   {"dev_pk": "AAAA"},
		"dev_pk long":    {"dev_pk": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		"dev_pk zero":    {"dev_pk": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
		"dev_pk urlsafe": {"dev_pk": strings.ReplaceAll(devPK, "/", "_")},
		"user_id text":   {"user_id": strconv.FormatInt(w.user, 10)},
		"user_id float":  {"user_id": 1.5},
		"user_id huge":   {"user_id": 1e30},
		"name":           {"name": 5},
		"name long":      {"name": strings.Repeat("x", 201)},
		"no code":        {"registration_code": ""},
		"NUL":            {"name": "a\x00b"},
	} {
		a := w.call("", registration, w.body(w.user, code, more)).want(t, 400, 5000)
		if strings.Contains(a.body, code) {
			t.Errorf("%s: the code is in %s", name, a.body)
		}
	}
	for _, text := range []string{"", "[]", "{", "null", `"x"`, `{"user_id":1}`} {
		w.call("", registration, text).want(t, 400, 5000)
	}
	if n := w.count(`SELECT COUNT(*) FROM devices`); n != 0 {
		t.Errorf("%d rows left behind", n)
	}
	w.call("", registration, w.body(w.user, code, nil)).want(t, 201, 0)
}
