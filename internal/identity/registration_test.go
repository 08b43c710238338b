package identity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func registering(mode RegistrationMode) func(*Deps) {
	return func(d *Deps) { d.Registration = mode }
}

// TestClosedRegistration: nobody gets an account or learns of one, before any
// work, and what is there already signs in.
func TestClosedRegistration(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		opened := build(t, db)
		code := opened.signUp(t, bob, adaPass).Letter.Code
		ok(t, opened.general("request-reset-password", "email", bob), `{"data":{"email":"bob@example.org","status":"reset_code_sent"}}`)
		reset := one(t, opened.work(t)).Letter.Code

		closed := reopen(opened, registering(""))
		users := number(t, db, "SELECT COUNT(*) FROM users")
		var bodies []string
		for _, body := range []string{
			general("register", ada, []string{"password", adaPass}), general("register", "new@example.org", []string{"password", adaPass}),
			general("register", "no address", []string{"password", "weak"}), general("activate-user", bob, []string{"verify_code", code}),
			general("activate-user", "new@example.org", []string{"verify_code", "123456"}),
		} {
			w := closed.call("POST", "/auth/general", body)
			refused(t, w, 403, 5022, `"REGISTRATION_CLOSED"`)
			bodies = append(bodies, w.Body.String())
		}
		for _, body := range bodies[1:] {
			if body != bodies[0] {
				t.Errorf("answers differ:\n%s\n%s", bodies[0], body)
			}
		}
		refused(t, closed.general("reset-password", "email", bob, "verify_code", reset, "new_password", wrongPas), 400, 5000)
		closed.general("request-reset-password", "email", bob)
		if letters := closed.work(t); len(letters) != 0 || closed.hashes.Load() != 1 { // the one of the reset whose code was right
			t.Errorf("letters %+v, %d hashes", letters, closed.hashes.Load())
		}
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			_, err := closed.CreateFederated(t.Context(), tx, closed.Registration(), "x", "x@example.org")
			return err
		})
		if !fault.Is(err, fault.CodeForbidden) {
			t.Errorf("a provider: %v", err)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM users"); n != users {
			t.Errorf("%d users, %d before", n, users)
		}
		closed.signIn(t)
	})
}

// TestApproval: a user who has proved the address waits for an administrator,
// by whatever code the address was proved.
func TestApproval(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, registering(RegistrationApproval))
		code := h.signUp(t, bob, adaPass).Letter.Code
		ok(t, h.general("activate-user", "email", bob, "verify_code", code), `{"data":{"email":"bob@example.org","status":"activation_successful"}}`)
		letters := h.work(t)
		if len(letters) != 2 || letters[0].To != bob || letters[0].Kind != "approval-pending" || letters[1].To != ada || letters[1].Kind != "approval-wanted" {
			t.Errorf("%+v", letters)
		}
		const carol = "carol@example.org"
		h.signUp(t, carol, adaPass)
		h.general("request-reset-password", "email", carol)
		code = one(t, h.work(t)).Letter.Code
		if w := h.general("reset-password", "email", carol, "verify_code", code, "new_password", adaPass); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if letters := h.work(t); len(letters) != 1 { // the administrator has heard of one this hour
			t.Errorf("%+v", letters)
		}
		for _, email := range []string{bob, carol} {
			user, err := h.FindUser(t.Context(), email)
			if err != nil || user.Status != StatusPending {
				t.Fatalf("%+v, %v", user, err)
			}
			refused(t, h.login(email, adaPass), 401, 5018)
			if err := h.Approve(t.Context(), user.ID); err != nil {
				t.Fatal(err)
			}
			if letter := one(t, h.work(t)); letter.Kind != "approved" || letter.To != email {
				t.Errorf("%+v", letter)
			}
			h.signInAs(t, email)
			if err := h.Approve(t.Context(), user.ID); !fault.Is(err, fault.CodeConflict) {
				t.Errorf("again: %v", err)
			}
			if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'user.approve' AND user_id = $1", user.ID); n != 1 {
				t.Errorf("%d entries", n)
			}
		}
		if err := h.Approve(t.Context(), 999); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("of no user: %v", err)
		}
		h.signUp(t, "dave@example.org", adaPass)
		setColumn(t, db, "status", string(StatusPending), number(t, db, "SELECT id FROM users WHERE email = 'dave@example.org'"))
		h.advance(unapprovedAge)
		if err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM users WHERE status = 'PENDING'"); n != 0 {
			t.Errorf("%d wait for ever", n)
		}
	})
}

// TestManyWaitAtOnce: the administrator hears of one of those who come at the
// same moment, and none is refused for it.
func TestManyWaitAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, registering(RegistrationApproval))
		calls := make([]func() *httptest.ResponseRecorder, 8)
		for i := range calls {
			email := fmt.Sprintf("u%d@example.org", i)
			code := h.signUp(t, email, adaPass).Letter.Code
			calls[i] = func() *httptest.ResponseRecorder {
				return h.general("activate-user", "email", email, "verify_code", code)
			}
		}
		for i, w := range burst(calls) {
			if w.Code != http.StatusOK {
				t.Errorf("the %dth: %d %s", i, w.Code, w.Body)
			}
		}
		wanted := 0
		for _, letter := range h.work(t) {
			if letter.Kind == "approval-wanted" {
				wanted++
			}
		}
		if wanted != 1 {
			t.Errorf("%d letters to the administrator", wanted)
		}
	})
}

// TestFederatedUsersCountAsRegistrations: an address makes as many users through
// providers and by mail together as the limit says.
func TestFederatedUsersCountAsRegistrations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, func(d *Deps) {
			d.Limits = DefaultLimits()
			d.Limits.RegistrationsPerAddress = Limit{Max: 3, Window: time.Hour}
		})
		create := func(i int) error {
			return db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				_, err := h.CreateFederated(t.Context(), tx, RegistrationOpen, "", fmt.Sprintf("u%d@example.org", i))
				return err
			})
		}
		for i := range 3 {
			if err := create(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := create(3); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("the fourth: %v", err)
		}
	})
}
