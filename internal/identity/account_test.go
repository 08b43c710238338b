package identity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const bob = "bob@example.org"

// signUp registers an address and returns the only letter.
func (h *house) signUp(t testing.TB, email, password string, more ...string) mail.Message {
	t.Helper()
	ok(t, h.general("register", append([]string{"email", email, "password", password}, more...)...), fmt.Sprintf(`{"data":{"email":%q,"status":"waiting_for_verification"}}`, email))
	return one(t, h.work(t))
}

func one(t testing.TB, letters []mail.Message) mail.Message {
	t.Helper()
	if len(letters) != 1 {
		t.Fatalf("%d letters: %+v", len(letters), letters)
	}
	return letters[0]
}

func ok(t testing.TB, w *httptest.ResponseRecorder, want string) {
	t.Helper()
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != want {
		t.Fatalf("got  %d %s\nwant 200 %s", w.Code, got, want)
	}
}

func refused(t testing.TB, w *httptest.ResponseRecorder, status, code int, words ...string) {
	t.Helper()
	good := w.Code == status && strings.Contains(w.Body.String(), fmt.Sprintf(`"code":%d`, code))
	for _, word := range words {
		good = good && strings.Contains(w.Body.String(), word)
	}
	if !good {
		t.Fatalf("%d %s; want %d/%d with %q", w.Code, w.Body, status, code, words)
	}
}

// TestRegistrationToSignIn is the way of a new person.
func TestRegistrationToSignIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		letter := h.signUp(t, bob, adaPass, "name", "bob", "country_of_residence", "de")
		if letter.To != bob || letter.Kind != "activation-code" || len(letter.Letter.Code) != 6 || letter.TTL != 15*time.Minute ||
			!strings.Contains(strings.Join(letter.Letter.Paragraphs, " "), "192.0.2.1") {
			t.Errorf("%+v", letter)
		}
		refused(t, h.login(bob, adaPass), 401, 5018) // INACTIVE
		ok(t, h.call("GET", "/auth/general?name=bob", ""), `{"data":{"available":true}}`)
		refused(t, h.general("activate-user", "email", bob, "verify_code", other(letter.Letter.Code)), 400, 5000, "verify_code")
		ok(t, h.general("activate-user", "email", "BOB@example.org", "verify_code", letter.Letter.Code), `{"data":{"email":"bob@example.org","status":"activation_successful"}}`)
		ok(t, h.call("GET", "/auth/general?name=BOB", ""), `{"data":{"available":false}}`)
		if w := h.login(bob, adaPass); w.Code != http.StatusOK {
			t.Fatalf("sign in: %d %s", w.Code, w.Body)
		}
		user, err := h.FindUser(t.Context(), bob)
		if err != nil || user.Name != "bob" || user.CountryOfResidence != "DE" || user.Status != StatusActive || len(user.Roles) != 0 {
			t.Errorf("%+v, %v", user, err)
		}
		refused(t, h.general("activate-user", "email", bob, "verify_code", letter.Letter.Code), 400, 5000, "verify_code")
		for _, action := range []string{"user.register", "user.code_refused", "user.activate"} {
			if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = $1 AND user_id = $2", action, user.ID); n == 0 {
				t.Errorf("%s is not in the log of the user", action)
			}
		}
		for _, bad := range []string{"ab", "a b"} {
			refused(t, h.call("GET", "/auth/general?name="+strings.ReplaceAll(bad, " ", "%20"), ""), 400, 5000, "name")
		}
		ok(t, h.call("GET", "/auth/general", ""), `{"data":{"registration":"open"}}`)
		refused(t, h.general("register", "email", "c@example.org", "password", adaPass, "name", "Bob"), 409, 5030, "name")
	})
}

// other is a code that is not this one.
func other(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

// TestTakenAddress: the answer is the same, the owner gets a mail, and nothing
// changes.
func TestTakenAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		letter := h.signUp(t, ada, wrongPas, "name", "mallory")
		if letter.Kind != "already-registered" || letter.Letter.Code != "" || letter.To != ada || letter.UserID != h.ada || letter.TTL != 24*time.Hour {
			t.Errorf("%+v", letter)
		}
		refused(t, h.login(ada, wrongPas), 401, 5018)
		h.signIn(t)
		if user, err := h.User(t.Context(), h.ada); err != nil || user.Name != "ada" {
			t.Errorf("%+v, %v", user, err)
		}
	})
}

// TestEveryCodeBringsItsOwnRegistration: a registration by somebody else gets
// nobody's password under the owner's code.
func TestEveryCodeBringsItsOwnRegistration(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		owner := h.signUp(t, bob, adaPass, "name", "bob")
		h.signUp(t, bob, wrongPas, "name", "mallory")
		ok(t, h.general("activate-user", "email", bob, "verify_code", owner.Letter.Code), `{"data":{"email":"bob@example.org","status":"activation_successful"}}`)
		refused(t, h.login(bob, wrongPas), 401, 5018)
		if w := h.login(bob, adaPass); w.Code != http.StatusOK {
			t.Errorf("the owner: %d %s", w.Code, w.Body)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM account_codes"); n != 0 {
			t.Errorf("%d codes are left", n)
		}
		// A name that is taken meanwhile is left out.
		carol := h.signUp(t, "carol@example.org", adaPass, "name", "carol")
		dave := h.signUp(t, "dave@example.org", adaPass, "name", "Carol")
		for email, code := range map[string]string{"carol@example.org": carol.Letter.Code, "dave@example.org": dave.Letter.Code} {
			if w := h.general("activate-user", "email", email, "verify_code", code); w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", email, w.Code, w.Body)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM users WHERE lower(name) = 'carol'"); n != 1 {
			t.Errorf("%d users have the name", n)
		}
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		pair := h.signIn(t)
		for range 10 {
			h.login(ada, wrongPas)
		}
		ok(t, h.general("request-reset-password", "email", ada), `{"data":{"email":"ada@example.org","status":"reset_code_sent"}}`)
		first := one(t, h.work(t)).Letter.Code
		ok(t, h.general("request-reset-password", "email", ada), `{"data":{"email":"ada@example.org","status":"reset_code_sent"}}`)
		letter := one(t, h.work(t))
		if letter.Kind != "reset-code" || letter.To != ada {
			t.Errorf("%+v", letter)
		}
		reset := func(code string) *httptest.ResponseRecorder {
			return h.general("reset-password", "email", ada, "verify_code", code, "new_password", wrongPas)
		}
		if first != letter.Letter.Code {
			refused(t, reset(first), 400, 5000, "verify_code") // the newer one counts
		}
		refused(t, h.general("activate-user", "email", ada, "verify_code", letter.Letter.Code), 400, 5000) // of another purpose
		hashes := h.hashes.Load()
		refused(t, reset(other(letter.Letter.Code)), 400, 5000, "verify_code")
		if h.hashes.Load() != hashes || !authenticated(t, h, pair) {
			t.Error("a wrong code was worth a hash, or ended the session")
		}
		ok(t, reset(letter.Letter.Code), `{"data":{"email":"ada@example.org","status":"password_reset_success"}}`)
		if authenticated(t, h, pair) {
			t.Error("a session outlived the reset")
		}
		refused(t, reset(letter.Letter.Code), 400, 5000, "verify_code") // once
		if told := one(t, h.work(t)); told.Kind != "password-changed" || told.To != ada {
			t.Errorf("%+v", told)
		}
		refused(t, h.login(ada, adaPass), 401, 5018)
		if w := h.login(ada, wrongPas); w.Code != http.StatusOK {
			t.Errorf("new password: %d %s", w.Code, w.Body)
		}
		for _, action := range []string{"user.request_reset", "user.reset_password"} {
			if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = $1 AND user_id = $2", action, h.ada); n == 0 {
				t.Errorf("%s is not in the log of the user", action)
			}
		}
	})
}

// TestResetOfOthers: an unknown and a disabled address get no mail; an INACTIVE
// user proves the address with the code.
func TestResetOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		if err := h.DisableUser(t.Context(), makeUser(t, h, "disabled@example.org")); err != nil {
			t.Fatal(err)
		}
		h.work(t) // the letter about that
		for _, email := range []string{"nobody@example.org", "disabled@example.org"} {
			ok(t, h.general("request-reset-password", "email", email), fmt.Sprintf(`{"data":{"email":%q,"status":"reset_code_sent"}}`, email))
			if letters := h.work(t); len(letters) != 0 {
				t.Errorf("%s: %+v", email, letters)
			}
			refused(t, h.general("reset-password", "email", email, "verify_code", "123456", "new_password", wrongPas), 400, 5000, "verify_code")
		}
		h.signUp(t, bob, adaPass)
		h.general("request-reset-password", "email", bob)
		code := one(t, h.work(t)).Letter.Code
		if w := h.general("reset-password", "email", bob, "verify_code", code, "new_password", wrongPas); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := h.login(bob, wrongPas); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestCodesEnd: after five tries, right ones included, and after 15 minutes.
func TestCodesEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		code := h.signUp(t, bob, adaPass).Letter.Code
		for range 5 {
			refused(t, h.general("activate-user", "email", bob, "verify_code", other(code)), 400, 5000)
		}
		refused(t, h.general("activate-user", "email", bob, "verify_code", code), 400, 5000)
		code = h.signUp(t, bob, adaPass).Letter.Code
		h.advance(15 * time.Minute)
		refused(t, h.general("activate-user", "email", bob, "verify_code", code), 400, 5000)
		code = h.signUp(t, bob, adaPass).Letter.Code
		h.advance(15*time.Minute - time.Millisecond)
		for range 4 {
			refused(t, h.general("activate-user", "email", bob, "verify_code", other(code)), 400, 5000)
		}
		if w := h.general("activate-user", "email", bob, "verify_code", code); w.Code != http.StatusOK {
			t.Errorf("fifth try at the last moment: %d %s", w.Code, w.Body)
		}
	})
}

// TestParallelGuessesOfACode: five tries are five, however many come at once,
// and of many uses of the right code one succeeds.
func TestParallelGuessesOfACode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		h.general("request-reset-password", "email", ada)
		code := one(t, h.work(t)).Letter.Code
		codes := make([]int, 20)
		var wg sync.WaitGroup
		for i := range codes {
			wg.Go(func() {
				codes[i] = h.general("reset-password", "email", ada, "verify_code", code, "new_password", wrongPas).Code
			})
		}
		wg.Wait()
		won := 0
		for _, code := range codes {
			if code == http.StatusOK {
				won++
			} else if code != http.StatusBadRequest {
				t.Errorf("answer %d", code)
			}
		}
		if tries := number(t, db, "SELECT COALESCE(SUM(tries), 0) FROM account_codes"); won != 1 || tries != 0 {
			t.Errorf("%d succeeded, %d tries on what is left", won, tries)
		}
	})
}

// TestCodesAreNotInTheDatabase: neither as text nor as a plain digest.
func TestCodesAreNotInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		letter := h.signUp(t, bob, adaPass)
		key, err := h.codeKeys.get(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM account_codes WHERE code_hash = $1", hashCode(key, purposeActivate, bob, letter.Letter.Code)); n != 1 {
			t.Fatalf("%d codes", n)
		}
		again := &codeKeys{db: db, keyring: h.codeKeys.keyring} // another node
		if shared, err := again.get(t.Context(), 0); err != nil || string(shared) != string(key) {
			t.Errorf("another node has another key, %v", err)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM code_keys WHERE key_sealed = $1", key); n != 0 {
			t.Error("the key lies in clear")
		}
		if n := number(t, db, "SELECT COUNT(*) FROM account_requests"); n != 0 {
			t.Errorf("%d requests are left", n)
		}
	})
}

func TestLimitsOfRequests(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, func(d *Deps) {
			d.Limits = DefaultLimits()
			d.Limits.RegistrationsPerAddress.Max, d.Limits.ResetsPerAddress.Max, d.Limits.WrongCodesPerAddress.Max = 10, 10, 7
			d.Limits.RegistrationsPerAccountTotal.Max, d.Limits.ResetsPerAccountTotal.Max = 9, 9
		})
		for action, pairs := range map[string][]string{"register": {"password", adaPass}, "request-reset-password": nil} {
			for _, email := range []string{ada, "nobody@example.org"} { // 5 for each account from one address, 9 from all
				for i := range 9 {
					if w := h.call("POST", "/auth/general", general(action, email, pairs), from(fmt.Sprintf("198.51.100.%d:1", i/5))); w.Code != http.StatusOK {
						t.Fatalf("%s %s %d: %d %s", action, email, i, w.Code, w.Body)
					}
					if i != 4 && i != 8 {
						continue
					}
					hashes := h.hashes.Load()
					w := h.call("POST", "/auth/general", general(action, email, pairs), from(fmt.Sprintf("198.51.100.%d:1", i/8*9)))
					refused(t, w, 429, 5013)
					if want := map[int]string{4: "3600", 8: "86400"}[i]; w.Header().Get("Retry-After") != want || h.hashes.Load() != hashes {
						t.Errorf("%s: Retry-After %s, want %s, %d hashes", action, w.Header().Get("Retry-After"), want, h.hashes.Load()-hashes)
					}
				}
			}
			for i := range 10 {
				if w := h.call("POST", "/auth/general", general(action, fmt.Sprintf("%s%d@example.org", action, i), pairs)); w.Code != http.StatusOK {
					t.Fatalf("%s %d: %d %s", action, i, w.Code, w.Body)
				}
			}
			refused(t, h.call("POST", "/auth/general", general(action, "last@example.org", pairs)), 429, 5013)
		}
		for range 7 {
			refused(t, h.general("activate-user", "email", "x@example.org", "verify_code", "123456"), 400, 5000)
		}
		refused(t, h.general("reset-password", "email", ada, "verify_code", "123456", "new_password", wrongPas), 429, 5013)
		h.work(t)
	})
}

func general(action, email string, pairs []string) string {
	var body strings.Builder
	fmt.Fprintf(&body, `{"action":%q,"email":%q`, action, email)
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&body, `,%q:%q`, pairs[i], pairs[i+1])
	}
	return body.String() + "}"
}

func TestSweepForgetsTheUnconfirmed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		h.signUp(t, bob, adaPass)
		h.advance(7*24*time.Hour - time.Millisecond)
		for _, want := range []int64{1, 0} {
			if err := h.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := number(t, db, "SELECT COUNT(*) FROM users WHERE email = $1", bob); n != want {
				t.Errorf("%d users, want %d", n, want)
			}
			h.advance(time.Millisecond)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM account_codes"); n != 0 {
			t.Errorf("%d codes", n)
		}
		h.signIn(t)
	})
}
