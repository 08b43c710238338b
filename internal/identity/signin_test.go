package identity

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

var passkeyMethod = Method{AMR: []string{"hwk", "user"}, ACR: "aal2"}

// within runs f in a transaction and returns its error.
func within(t *testing.T, db *sqldb.DB, f func(tx *sqldb.Tx) error) error {
	t.Helper()
	return db.InTx(t.Context(), f)
}

// caller is who the cookie stands for.
func (h *house) caller(t *testing.T, c *http.Cookie) *access.Caller {
	t.Helper()
	caller, err := h.Session(request(t, c.Name+"="+c.Value))
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		var set []*http.Cookie
		var user User
		signIn := func(id int64) error {
			return within(t, db, func(tx *sqldb.Tx) (err error) {
				set, user, err = h.SignIn(t.Context(), tx, id, passkeyMethod)
				return err
			})
		}
		if err := signIn(h.ada); err != nil || user.Email != ada {
			t.Fatalf("%+v, %v", user, err)
		}
		if c := h.caller(t, set[0]); c.UserID != h.ada || c.ACR != "aal2" || !slices.Equal(c.AMR, []string{"hwk", "user"}) || c.AuthTime != h.ms.Load() {
			t.Errorf("%+v", c)
		}
		disabled := makeUser(t, h, "disabled@example.org")
		if err := h.DisableUser(t.Context(), disabled); err != nil {
			t.Fatal(err)
		}
		for _, id := range []int64{disabled, 999} {
			if err := signIn(id); !fault.Is(err, fault.CodeUnauthorized) {
				t.Errorf("user %d: %v", id, err)
			}
		}
		if err := h.EnableUser(t.Context(), disabled); err != nil {
			t.Fatal(err)
		}
		if err := signIn(disabled); err != nil {
			t.Errorf("enabled again: %v", err)
		}
	})
}

// TestStepUp: a passkey adds to the password, a password does not renew what a
// passkey proved.
func TestStepUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		set, _, err := signInBy(t, h, db, passwordMethod())
		if err != nil {
			t.Fatal(err)
		}
		stepUp := func(m Method) {
			t.Helper()
			old, caller := set, h.caller(t, set)
			err := within(t, db, func(tx *sqldb.Tx) (err error) {
				set, err = h.StepUp(t.Context(), tx, caller, m)
				return err
			})
			if err != nil || authenticated(t, h, old.Name+"="+old.Value) {
				t.Fatalf("the id was not rotated, %v", err)
			}
		}
		h.advance(time.Hour)
		stepUp(passkeyMethod)
		if c := h.caller(t, set); c.ACR != "aal2" || !slices.Equal(c.AMR, []string{"hwk", "user", "pwd"}) || c.AuthTime != h.ms.Load() {
			t.Errorf("%+v", c)
		}
		h.advance(time.Hour)
		stepUp(passwordMethod())
		if c := h.caller(t, set); c.ACR != "aal1" || !slices.Equal(c.AMR, []string{"pwd"}) || c.AuthTime != h.ms.Load() {
			t.Errorf("%+v", c)
		}
		caller := h.caller(t, set)
		change(t, db, "DELETE FROM sessions")
		err = within(t, db, func(tx *sqldb.Tx) error { _, err := h.StepUp(t.Context(), tx, caller, passkeyMethod); return err })
		if !fault.Is(err, fault.CodeUnauthorized) {
			t.Errorf("an ended session: %v", err)
		}
	})
}

func signInBy(t *testing.T, h *house, db *sqldb.DB, m Method) (set *http.Cookie, user User, err error) {
	t.Helper()
	err = within(t, db, func(tx *sqldb.Tx) (err error) {
		cookies, who, err := h.SignIn(t.Context(), tx, h.ada, m)
		if err == nil {
			set, user = cookies[0], who
		}
		return err
	})
	return set, user, err
}

func TestCreateFederated(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		create := func(name, email string) (id int64, err error) {
			err = within(t, db, func(tx *sqldb.Tx) (err error) {
				id, err = h.CreateFederated(t.Context(), tx, RegistrationOpen, name, email)
				if err == nil {
					_, _, err = h.SignIn(t.Context(), tx, id, passkeyMethod)
				}
				return err
			})
			return id, err
		}
		h.signUp(t, bob, wrongPas) // somebody else's, never confirmed
		for _, c := range []struct{ name, email, stored string }{
			{"carol", "Carol@example.org", "carol"}, {"Ada", "", ""}, {"no good name", "", ""}, {"bobby", bob, "bobby"}, {"", "", ""},
		} {
			id, err := create(c.name, c.email)
			if err != nil {
				t.Errorf("%q %q: %v", c.name, c.email, err)
				continue
			}
			if user, err := h.User(t.Context(), id); err != nil || user.Name != c.stored || user.Status != StatusActive {
				t.Errorf("%q %q: %+v, %v", c.name, c.email, user, err)
			}
		}
		if id, err := create("x1y2", ada); id != 0 || !fault.Is(err, fault.CodeConflict) {
			t.Errorf("the address of another user: %d, %v", id, err)
		}
		refused(t, h.login(bob, ""), 400, 5000)
		refused(t, h.login(bob, wrongPas), 401, 5018)
	})
}
