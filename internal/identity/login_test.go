package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestLoginAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		w := h.login(" ADA@Example.org ", adaPass)
		want := fmt.Sprintf(`{"data":{"user":{"id":%d,"email":"ada@example.org","roles":["admin"]},"to":"/"}}`, h.ada)
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != want {
			t.Errorf("got  %d %s\nwant 200 %s", w.Code, got, want)
		}
		set := w.Result().Header["Set-Cookie"]
		// The session's comes first, where scripts look for it; then that of the browser which signed in.
		if len(set) != 2 || !strings.HasPrefix(set[1], "certharbor_known_") || !strings.HasPrefix(set[0], "certharbor_session=") || !strings.HasSuffix(set[0], "; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax") {
			t.Errorf("Set-Cookie: %q", set)
		}
		// Scripts send the whole value back (wire.md section 1.7).
		if status := h.call("GET", "/auth/status", "", cookie(set[0])); !strings.Contains(status.Body.String(), `"authenticated":true`) {
			t.Errorf("status with the whole Set-Cookie value: %s", status.Body)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'session.sign_in' AND user_id = $1 AND actor LIKE 'session %'", h.ada); n != 1 {
			t.Errorf("%d audit entries of the sign-in", n)
		}
	})
}

// TestRefusalsTellNothing: the answer and the work are the same whatever is
// wrong; the work is counted in hashes and rows, not in time.
func TestRefusalsTellNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		disabled := makeUser(t, h, "disabled@example.org")
		if err := h.DisableUser(t.Context(), disabled); err != nil {
			t.Fatal(err)
		}
		setColumn(t, db, "status", "INACTIVE", makeUser(t, h, "inactive@example.org"))
		setColumn(t, db, "password", "", makeUser(t, h, "passkey@example.org"))
		setColumn(t, db, "password", "$broken", makeUser(t, h, "broken@example.org"))
		var first string
		for i, c := range []struct{ name, email, password string }{
			{"wrong password", ada, wrongPas},
			{"unknown user", "nobody@example.org", wrongPas},
			{"disabled user, right password", "disabled@example.org", adaPass},
			{"inactive user, right password", "inactive@example.org", adaPass},
			{"user without a password", "passkey@example.org", adaPass},
			{"hash that cannot be read", "broken@example.org", adaPass},
		} {
			h.hashes.Store(0)
			rows := number(t, db, "SELECT COUNT(*) FROM audit_log")
			w := h.login(c.email, c.password)
			answer := fmt.Sprint(w.Code, w.Body, w.Result().Header["Set-Cookie"], w.Result().Header["Www-Authenticate"])
			if i == 0 {
				first = answer
				if w.Code != http.StatusUnauthorized || !strings.Contains(answer, `"code":5018`) {
					t.Errorf("%s: %s", c.name, answer)
				}
			} else if answer != first {
				t.Errorf("%s: %s\nbut a wrong password: %s", c.name, answer, first)
			}
			if n := h.hashes.Load(); n != 1 {
				t.Errorf("%s: %d hashes, want 1", c.name, n)
			}
			if n := number(t, db, "SELECT COUNT(*) FROM audit_log") - rows; n != 1 {
				t.Errorf("%s: %d audit entries, want 1", c.name, n)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM rate_limits WHERE hits = 1 AND bucket LIKE 'login.account-address %'"); n != 6 {
			t.Errorf("%d accounts counted, want 6", n)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM sessions"); n != 0 {
			t.Errorf("%d sessions after refusals alone", n)
		}
	})
}

// TestDummyCostsWhatAPasswordCosts: the settings are those of a new hash.
func TestDummyCostsWhatAPasswordCosts(t *testing.T) {
	t.Parallel()
	fresh, dummy := newPHC(), dummyPHC()
	if fresh.memory != dummy.memory || fresh.time != dummy.time || fresh.threads != dummy.threads ||
		len(fresh.salt) != len(dummy.salt) || len(dummy.key) != argonKey {
		t.Errorf("dummy %v, new hashes %v", dummy, fresh)
	}
}

func TestLimitPerAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, func(d *Deps) {
			d.Limits = DefaultLimits()
			d.Limits.WrongPasswordsPerAccountTotal.Max = 15
		})
		for _, email := range []string{ada, "nobody@example.org"} {
			for i := range 10 {
				if w := h.login(email, wrongPas, from("198.51.100.1:1")); w.Code != http.StatusUnauthorized {
					t.Fatalf("%s, wrong password %d: %d %s", email, i+1, w.Code, w.Body)
				}
				h.advance(time.Minute)
			}
			h.hashes.Store(0)
			w := h.login(strings.ToUpper(email), adaPass, from("198.51.100.1:1"))
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "300" || !strings.Contains(w.Body.String(), `"code":5013`) {
				t.Errorf("%s, eleventh try: %d, Retry-After %q, %s", email, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			if h.hashes.Load() != 0 {
				t.Errorf("%s: a refused try was hashed", email)
			}
			if w := h.login(email, adaPass); (w.Code == http.StatusOK) != (email == ada) {
				t.Errorf("%s from elsewhere: %d %s", email, w.Code, w.Body)
			}
			for i := range 4 {
				h.login(email, wrongPas, from(fmt.Sprintf("198.51.100.%d:1", 10+i)))
			}
			h.advance(5 * time.Minute)
			if w := h.login(email, adaPass, from("198.51.100.1:1")); (w.Code == http.StatusOK) != (email == ada) {
				t.Errorf("%s after the window: %d %s", email, w.Code, w.Body)
			}
			for range 2 {
				h.login(email, wrongPas, from("198.51.100.30:1"))
			}
			refused(t, h.login(email, adaPass, from("198.51.100.31:1")), 429, 5013) // the day's total
		}
	})
}

func TestLimitPerAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, func(d *Deps) {
			d.Limits = DefaultLimits()
			d.Limits.WrongPasswordsPerAddress.Max = 20
		})
		attacker := from("[2001:db8:0:1::1]:1")
		for i := range 20 {
			spoof := func(r *http.Request) { r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i)) }
			if w := h.login(fmt.Sprintf("u%d@example.org", i), wrongPas, attacker, spoof); w.Code != http.StatusUnauthorized {
				t.Fatalf("wrong password %d: %d %s", i+1, w.Code, w.Body)
			}
		}
		if w := h.login(ada, adaPass, from("[2001:db8:0:1:ffff::2]:1")); w.Code != http.StatusTooManyRequests {
			t.Errorf("the same /64: %d %s", w.Code, w.Body)
		}
		if w := h.login(ada, adaPass, from("[2001:db8:0:2::1]:1")); w.Code != http.StatusOK {
			t.Errorf("another network: %d %s", w.Code, w.Body)
		}
	})
}

func TestRightPasswordsAreNotLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 5 {
					if w := h.login(ada, adaPass); w.Code != http.StatusOK {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				}
			})
		}
		wg.Wait()
		if n := number(t, db, "SELECT COUNT(*) FROM rate_limits WHERE hits > 0"); n != 0 {
			t.Errorf("%d limits were counted", n)
		}
	})
}

// TestParallelGuessesLearnNoMore: of many guesses at once only ten are told
// that they are wrong, and once they are, the right one is not told either.
func TestParallelGuessesLearnNoMore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		codes := make([]int, 40)
		var wg sync.WaitGroup
		for i := range codes {
			wg.Go(func() { codes[i] = h.login(ada, wrongPas).Code })
		}
		wg.Wait()
		count := map[int]int{}
		for _, code := range codes {
			count[code]++
		}
		if count[http.StatusUnauthorized] != 10 || count[http.StatusTooManyRequests] != 30 {
			t.Errorf("answers: %v", count)
		}
	})
}

// TestDisabledWhileHashing: no session comes into being after the disabling.
func TestDisabledWhileHashing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		hash := h.passwords.derive
		h.passwords.derive = func(password, salt []byte, a, b uint32, c uint8, d uint32) []byte {
			if err := h.DisableUser(context.WithoutCancel(t.Context()), h.ada); err != nil {
				t.Error(err)
			}
			return hash(password, salt, a, b, c, d)
		}
		if w := h.login(ada, adaPass); w.Code != http.StatusUnauthorized {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM sessions"); n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

func TestLoginReplacesTheSession(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		other := h.signIn(t)
		old := h.signIn(t)
		fresh := h.signIn(t, cookie(old))
		for pair, valid := range map[string]bool{other: true, old: false, fresh: true} {
			if got := authenticated(t, h, pair); got != valid {
				t.Errorf("%s: %v, want %v", pair, got, valid)
			}
		}
		// A fixed id of the attacker's choice is not taken over.
		chosen := "certharbor_session=" + strings.Repeat("A", tokenLength)
		if got := h.signIn(t, cookie(chosen)); got == chosen || authenticated(t, h, chosen) {
			t.Error("a session id from outside was taken over")
		}
	})
}

func TestGeneralRefusesBadInput(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	long := strings.Repeat("x", 1025)
	for body, word := range map[string]string{
		``:                   "body",
		`{`:                  "JSON",
		`[]`:                 "object",
		`null`:               "",
		`{}`:                 "action",
		`{"action":"login"}`: "email",
		`{"action":"Login"}`: "login",
		`{"action":7}`:       "action",
		`{"action":"register","email":"a@b.c","password":"` + adaPass + `","name":"a b"}`:                "name",
		`{"action":"register","email":"a@b.c","password":"` + adaPass + `","country_of_residence":"D1"}`: "country_of_residence",
		`{"action":"register","email":"a@b.c","password":"analytical-engine-1843"}`:                      "password",
		`{"action":"register","password":"` + adaPass + `"}`:                                             "email",
		`{"action":"activate-user","email":"a@b.c"}`:                                                     "verify_code",
		`{"action":"activate-user","email":"a@b.c","verify_code":123456}`:                                "verify_code",
		`{"action":"request-reset-password","email":"a"}`:                                                "email",
		`{"action":"reset-password","email":"a@b.c","verify_code":"1","new_password":"` + adaPass + `"}`: "verify_code",
		`{"action":"reset-password","email":"a@b.c","verify_code":"123456","new_password":"x"}`:          "new_password",
		`{"action":"unregister"}`:                                                "request-reset-password",
		`{"action":"login","email":"ada@example.org"}`:                           "password",
		`{"action":"login","email":"ada@example.org","password":""}`:             "password",
		`{"action":"login","email":"ada@example.org","password":null}`:           "password",
		`{"action":"login","email":"ada@example.org","password":7}`:              "password",
		`{"action":"login","email":["x"],"password":"y"}`:                        "email",
		`{"action":"login","email":"ada","password":"y"}`:                        "email",
		`{"action":"login","email":"ada@example.org","password":"` + long + `"}`: "password",
		`{"action":"login","email":"` + long + `@x.org","password":"y"}`:         "email",
		`{"action":"login","email":"ada@example.org","password":"y\u0000"}`:      "NUL",
	} {
		w := h.call("POST", "/auth/general", body)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":5000`) || !strings.Contains(w.Body.String(), word) {
			t.Errorf("%.80s: %d %s, want 400/5000 with %q", body, w.Code, w.Body, word)
		}
		if strings.Contains(w.Body.String(), adaPass) {
			t.Errorf("%.80s: the answer quotes the password", body)
		}
	}
	if h.hashes.Load() != 0 {
		t.Error("bad input was hashed")
	}
}

func authenticated(t *testing.T, h *house, pair string) bool {
	t.Helper()
	w := h.call("GET", "/auth/status", "", cookie(pair))
	return decode[statusAnswer](t, w).Authenticated
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var body struct{ Data T }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return body.Data
}

func makeUser(t *testing.T, h *house, email string) int64 {
	t.Helper()
	id, err := h.CreateUser(t.Context(), NewUser{Email: email, Password: adaPass})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func setColumn(t testing.TB, db *sqldb.DB, column, value string, id int64) {
	t.Helper()
	change(t, db, "UPDATE users SET "+column+" = $1 WHERE id = $2", value, id)
}

func deleteUser(t *testing.T, db *sqldb.DB, id int64) {
	t.Helper()
	change(t, db, "DELETE FROM users WHERE id = $1", id)
}

func change(t testing.TB, db *sqldb.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Writer().ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}
