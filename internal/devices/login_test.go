package devices_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const deviceLogin = "POST /auth/device"

func (w *world) start(more m) answer {
	w.t.Helper()
	b := m{"action": "device_start"}
	maps.Copy(b, more)
	return w.call("", deviceLogin, b)
}

func (w *world) poll(started answer) answer {
	w.t.Helper()
	return w.call("", deviceLogin, m{"action": "device_poll", "device_code": started.text("device_code"), "device_id": "7"}).want(w.t, 200, 0)
}

func (w *world) verify(user int64, started answer, more m) answer {
	w.t.Helper()
	b := m{"action": "device_verify", "user_code": strings.ToLower(started.text("user_code"))}
	maps.Copy(b, more)
	return w.call(session(user), deviceLogin, b)
}

func wantStatus(t *testing.T, a answer, status string) answer {
	t.Helper()
	if a.text("status") != status {
		t.Fatalf("%s, want status %s", a.body, status)
	}
	return a
}

func TestDeviceLogin(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		s := w.start(nil).want(t, 200, 0)
		if !regexp.MustCompile(`^[A-Z0-9]{4}-[A-Z0-9]{4}$`).MatchString(s.text("user_code")) || s.text("device_code") == "" ||
			s.text("verification_uri") != "https://certs.example.com/device" ||
			s.text("verification_uri_complete") != "https://certs.example.com/device?user_code="+s.text("user_code") ||
			s.id("interval") != 5 || s.id("expires_in") != 900 || s.member("status") != nil {
			t.Fatalf("start: %s", s.body)
		}
		wantStatus(t, w.poll(s), "authorization_pending")
		wantStatus(t, w.poll(s), "slow_down")
		w.advance(4400 * time.Millisecond)
		wantStatus(t, w.poll(s), "slow_down")
		w.advance(600 * time.Millisecond)
		wantStatus(t, w.poll(s), "authorization_pending") // asked to slow down, still not ended
		w.call("", deviceLogin, m{"action": "device_verify", "user_code": s.text("user_code")}).want(t, 401, 5018)
		wantStatus(t, w.verify(w.user, s, nil).want(t, 200, 0), "approved")
		wantStatus(t, w.verify(w.user, s, nil).want(t, 200, 0), "approved")
		w.verify(w.other, s, nil).want(t, 400, 5000)
		w.verify(w.user, s, m{"approve": false}).want(t, 400, 5000)

		ready := wantStatus(t, w.poll(s), "ready")
		w.advance(30 * time.Second)
		again := wantStatus(t, w.poll(s), "ready")
		if ready.text("registration_code") == "" || again.text("registration_code") != ready.text("registration_code") ||
			ready.id("registration_code_ttl") != 600 || again.id("registration_code_ttl") != 570 || ready.id("user_id") != w.user {
			t.Errorf("ready %s, again %s", ready.body, again.body)
		}
		if strings.Contains(ready.body, "token") {
			t.Errorf("a token in %s", ready.body)
		}
		w.call("", registration, w.body(w.user, ready.text("registration_code"), nil)).want(t, 201, 0)
		wantStatus(t, w.poll(s), "expired")
	})
}

func TestDeviceLoginEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		denied := w.start(m{"interval": 1, "expires_in": 30, "scopes": []string{"a"}}).want(t, 200, 0)
		if denied.id("interval") != 1 || denied.id("expires_in") != 30 {
			t.Errorf("start: %s", denied.body)
		}
		wantStatus(t, w.verify(w.user, denied, m{"approve": false}).want(t, 200, 0), "denied")
		wantStatus(t, w.poll(denied), "access_denied")
		w.verify(w.user, denied, nil).want(t, 400, 5000)

		late, unused := w.start(m{"expires_in": 30}), w.start(m{"expires_in": 30})
		w.advance(29 * time.Second)
		wantStatus(t, w.verify(w.user, unused, nil).want(t, 200, 0), "approved")
		w.advance(time.Second)
		wantStatus(t, w.poll(late), "expired")
		w.verify(w.user, late, nil).want(t, 400, 5000)
		wantStatus(t, w.poll(unused), "ready") // approved in time, the code has its own lifetime
		w.advance(599 * time.Second)
		wantStatus(t, w.poll(unused), "expired")

		if err := w.svc.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, w.poll(unused), "expired")
		w.advance(time.Hour)
		if err := w.svc.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.count(`SELECT (SELECT COUNT(*) FROM device_logins) + (SELECT COUNT(*) FROM registration_codes)`); n != 0 {
			t.Errorf("%d rows after the sweep", n)
		}
	})
}

func TestDeviceLoginInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	for _, body := range []m{
		{}, {"action": ""}, {"action": "x"}, {"action": 5}, {"action": "device_approve"},
		{"action": "device_start", "interval": 0}, {"action": "device_start", "interval": -1}, {"action": "device_start", "interval": "5"},
		{"action": "device_start", "interval": 1.5}, {"action": "device_start", "interval": 1e18},
		{"action": "device_start", "expires_in": 29}, {"action": "device_start", "expires_in": 3601}, {"action": "device_start", "expires_in": 0},
		{"action": "device_start", "scopes": []string{""}}, {"action": "device_start", "scopes": "a"}, {"action": "device_start", "scopes": []int{1}},
		{"action": "device_poll"}, {"action": "device_poll", "device_code": ""}, {"action": "device_poll", "device_code": "x"}, {"action": "device_poll", "device_code": 7},
		{"action": "device_verify"}, {"action": "device_verify", "user_code": "ABCDEFGH"}, {"action": "device_verify", "user_code": "ſBCD-EFGH"},
		{"action": "device_verify", "user_code": "ABCD-EFGH", "approve": "yes"},
	} {
		w.call(session(w.user), deviceLogin, body).want(t, 400, 5000)
	}
	w.call("", deviceLogin, m{"action": "device_start", "unknown": m{"a": 1}}).want(t, 200, 0)
	page := w.call("", "GET /device?user_code=canary", nil).want(t, 200, 0)
	if !strings.Contains(page.body, "device_verify") || strings.Contains(page.body, "canary") {
		t.Errorf("page: %s", page.body)
	}
}

// Whoever approves sees what waits: the device's own words, and where from.
func TestWhatIsApproved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		look := func(user int64, code string) answer {
			return w.call(session(user), "GET /auth/device?user_code="+code, nil)
		}
		begun := w.ms.Load()
		s := w.start(m{"name": "web-1", "platform": "linux/amd64", "scopes": []string{"a", "b"}}).want(t, 200, 0)
		code := s.text("user_code")
		seen := look(w.user, strings.ToLower(code)).want(t, 200, 0)
		if seen.text("user_code") != code || seen.text("status") != "pending" || seen.text("name") != "web-1" || seen.text("platform") != "linux/amd64" ||
			seen.text("client_ip") != "192.0.2.1" || seen.id("created_at") != begun || seen.id("expires_at") != begun+900_000 || !strings.Contains(seen.body, `"scopes":["a","b"]`) {
			t.Errorf("waiting: %s", seen.body)
		}
		w.call("", "GET /auth/device?user_code="+code, nil).want(t, 401, 5018)
		look(w.other, code).want(t, 200, 0)
		wantStatus(t, w.verify(w.user, s, nil).want(t, 200, 0), "approved")
		wantStatus(t, look(w.user, code).want(t, 200, 0), "approved")
		look(w.other, code).want(t, 400, 5000) // no longer for anybody else

		plain := w.start(nil).want(t, 200, 0)
		if body := look(w.user, plain.text("user_code")).want(t, 200, 0).body; !strings.Contains(body, `"scopes":[]`) {
			t.Errorf("waiting: %s", body)
		}
		w.advance(900 * time.Second)
		for _, bad := range []string{plain.text("user_code"), "BBBB-BBBB", "", "x", "BBBBBBBB", "%00"} {
			look(w.user, bad).want(t, 400, 5000)
		}
	})
}

// Looking a code up counts like deciding it: nobody finds one by trying.
func TestLookingUpCodesIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	w.svc.WrongCodes = 3
	for range 3 {
		w.call(session(w.user), "GET /auth/device?user_code=BBBB-BBBB", nil).want(t, 400, 5000)
	}
	w.call(session(w.user), "GET /auth/device?user_code=BBBB-BBBB", nil).want(t, 429, 5013)
	w.call(session(w.user), deviceLogin, m{"action": "device_verify", "user_code": "BBBB-BBBB"}).want(t, 429, 5013)
}

// What a stolen database shows of a login: no code opens it.
func TestCodesAreNotStoredInClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	s := w.start(nil)
	w.verify(w.user, s, nil).want(t, 200, 0)
	code := w.poll(s).text("registration_code")
	for _, secret := range []string{code, s.text("device_code"), s.text("user_code")} {
		n := w.count(`SELECT (SELECT COUNT(*) FROM device_logins WHERE instr(device_code_hash, $1) + instr(user_code_hash, $1) > 0)
			+ (SELECT COUNT(*) FROM registration_codes WHERE instr(code_hash, $1) + instr(code_sealed, $1) > 0)`, []byte(secret))
		if n != 0 || secret == "" {
			t.Errorf("%q is stored in clear", secret)
		}
	}
}

// Anybody may begin a device login, but not fill the table with them.
func TestStartsPerAddressAreLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		w.start(nil).want(t, 200, 0)
		w.exec("UPDATE rate_limits SET hits = 999 WHERE bucket = 'devices.start 192.0.2.1'")
		w.start(nil).want(t, 200, 0)
		if a := w.start(nil).want(t, 429, 5013); a.header.Get("Retry-After") != "3600" {
			t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
		w.address = "192.0.2.2:1000"
		w.start(nil).want(t, 200, 0)
		w.address = "192.0.2.1:1000"
		w.advance(time.Hour + time.Second)
		w.start(nil).want(t, 200, 0)
	})
}
