package identity

import (
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

// burst releases the calls together and returns the answers in their order.
func burst(calls []func() *httptest.ResponseRecorder) []*httptest.ResponseRecorder {
	answers := make([]*httptest.ResponseRecorder, len(calls))
	release := make(chan struct{})
	var group sync.WaitGroup
	for i, call := range calls {
		group.Go(func() {
			<-release
			answers[i] = call()
		})
	}
	close(release)
	group.Wait()
	return answers
}

// looked counts the answers that a limit did not refuse.
func looked(answers []*httptest.ResponseRecorder) (n int) {
	for _, w := range answers {
		if w.Code != http.StatusTooManyRequests {
			n++
		}
	}
	return n
}

// busy keeps the writer of the database occupied until the test ends it.
func busy(t *testing.T, db *sqldb.DB) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE users SET updated_at = updated_at + 1")
				return err
			}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() { close(stop); group.Wait() }
}

// TestCodesInABurst is the take-over by a thousand guesses at once: the address
// has one wrong code left, the writer is busy, the right code comes last. One
// guess is looked at, on two nodes as well, and its try stays spent.
func TestCodesInABurst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		nodes := []*house{h, reopen(h)}
		h.general("request-reset-password", "email", ada)
		code := one(t, h.work(t)).Letter.Code
		for i := range 99 {
			refused(t, h.general("reset-password", "email", fmt.Sprintf("u%d@example.org", i), "verify_code", "123456", "new_password", wrongPas), 400, 5000)
		}
		calls := make([]func() *httptest.ResponseRecorder, 1000)
		for i := range calls {
			guess := fmt.Sprintf("%06d", i)
			if guess == code {
				guess = "999999"
			}
			if i == len(calls)-1 {
				guess = code
			}
			calls[i] = func() *httptest.ResponseRecorder {
				return nodes[i%2].general("reset-password", "email", ada, "verify_code", guess, "new_password", wrongPas)
			}
		}
		end := busy(t, db)
		answers := burst(calls)
		end()
		left := 1
		if answers[len(answers)-1].Code == http.StatusOK {
			left = 2 // it was the one, and a right code is no wrong one: its place is free again
		}
		if n := looked(answers); n > left || n == 0 {
			t.Errorf("%d guesses were looked at, %d were left", n, left)
		}
		if n := number(t, db, "SELECT COALESCE(SUM(tries), 0) FROM account_codes WHERE email = $1", ada); n != 1 && answers[len(answers)-1].Code != http.StatusOK {
			t.Errorf("%d tries are spent", n)
		}
	})
}

// TestPasswordsInABurst: of a thousand guesses at an account, ten are looked at.
func TestPasswordsInABurst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, func(d *Deps) { d.HashSlots = 8 })
		nodes := []*house{h, reopen(h, func(d *Deps) { d.HashSlots = 8 })}
		calls := make([]func() *httptest.ResponseRecorder, 1000)
		for i := range calls {
			calls[i] = func() *httptest.ResponseRecorder { return nodes[i%2].login(ada, fmt.Sprint(wrongPas, i)) }
		}
		if n := looked(burst(calls)); n != 10 {
			t.Errorf("%d were looked at", n)
		}
	})
}

// known signs in and returns the cookie that makes the browser known.
func (h *house) known(t *testing.T, email, password string) string {
	t.Helper()
	for _, c := range h.login(email, password, from("203.0.113.77:1")).Result().Cookies() {
		if strings.Contains(c.Name, knownCookie) && c.HttpOnly && c.Path == "/" {
			return c.Name + "=" + c.Value
		}
	}
	t.Fatal("no cookie makes the browser known")
	return ""
}

// TestAnAttackedAccountIsNotLockedOut: strangers use up every limit of an
// account, from one address that its owner shares. The owner's browser signs in
// and resets the password all the same; a browser known to another account, or
// with a forged cookie, does not, and the owner's has ten tries of its own.
func TestAnAttackedAccountIsNotLockedOut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, func(d *Deps) {
			d.Limits = DefaultLimits()
			d.Limits.ResetsPerAddress.Max = 12
		})
		makeUser(t, h, bob)
		owner, stranger := h.known(t, ada, adaPass), h.known(t, bob, adaPass)
		for i := range 110 {
			h.login(ada, wrongPas, from(fmt.Sprintf("198.51.100.%d:1", i/10)))
			h.login(fmt.Sprintf("u%d@example.org", i), wrongPas)
			h.general("request-reset-password", "email", ada)
			h.call("POST", "/auth/general", general("request-reset-password", ada, nil), from(fmt.Sprintf("198.51.100.%d:1", i/5)))
		}
		h.work(t)
		_, value, _ := strings.Cut(owner, "=")
		name, _, _ := strings.Cut(owner, "=")
		_, theirs, _ := strings.Cut(stranger, "=")
		for what, pair := range map[string]string{"none": "x=y", "of another": stranger, "moved": name + "=" + theirs, "cut": name + "=" + value[:60], "changed": name + "=" + value[:63] + "A"} {
			if what == "changed" && strings.HasSuffix(value, "A") {
				continue
			}
			refused(t, h.login(ada, adaPass, cookie(pair)), 429, 5013)
			refused(t, h.call("POST", "/auth/general", general("request-reset-password", ada, nil), cookie(pair)), 429, 5013)
		}
		for range 30 { // right passwords are not limited
			if w := h.login(ada, adaPass, cookie(owner)); w.Code != http.StatusOK {
				t.Fatalf("the owner: %d %s", w.Code, w.Body)
			}
		}
		for range 10 {
			refused(t, h.login(ada, wrongPas, cookie(owner)), 401, 5018)
		}
		refused(t, h.login(ada, adaPass, cookie(owner)), 429, 5013)
		if w := h.call("POST", "/auth/general", general("request-reset-password", ada, nil), cookie(owner)); w.Code != http.StatusOK {
			t.Fatalf("the owner's reset: %d %s", w.Code, w.Body)
		}
		code := one(t, h.work(t)).Letter.Code
		for i := range 20 { // strangers burn the code
			h.call("POST", "/auth/general", general("reset-password", ada, []string{"verify_code", other(code), "new_password", wrongPas}), from(fmt.Sprintf("198.51.101.%d:1", i)))
		}
		const fresh = "Engine-Analytical-1843"
		w := h.call("POST", "/auth/general", general("reset-password", ada, []string{"verify_code", code, "new_password", fresh}), cookie(owner), from("203.0.113.9:1"))
		if w.Code != http.StatusOK {
			t.Fatalf("the owner's code: %d %s", w.Code, w.Body)
		}
		pair, _, _ := strings.Cut(w.Result().Header.Get("Set-Cookie"), ";")
		if w := h.login(ada, fresh, cookie(pair)); w.Code != http.StatusOK { // the address is still full
			t.Errorf("the new password: %d %s", w.Code, w.Body)
		}
		refused(t, h.login(ada, fresh, cookie(owner)), 429, 5013) // known under the old password
		h.advance(24 * time.Hour)
		if w := h.login(ada, fresh); w.Code != http.StatusOK {
			t.Errorf("a day later: %d %s", w.Code, w.Body)
		}
	})
}

// TestMadeUpAccountsShareNoCount: who makes up addresses until enough of them have
// a digest that begins as another's does not use up what that one has in a day.
func TestMadeUpAccountsShareNoCount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		wanted, found := accountKey(ada, "")[:4], 0
		for i := 0; found < 4; i++ {
			email := fmt.Sprintf("u%d@example.org", i)
			if accountKey(email, "")[:4] != wanted {
				continue
			}
			found++
			for range 5 {
				ok(t, h.general("request-reset-password", "email", email), `{"data":{"email":"`+email+`","status":"reset_code_sent"}}`)
			}
		}
		from := func(r *http.Request) { r.RemoteAddr = "198.51.100.7:1" }
		w := h.call("POST", "/auth/general", general("request-reset-password", ada, nil), from)
		ok(t, w, `{"data":{"email":"`+ada+`","status":"reset_code_sent"}}`)
	})
}
