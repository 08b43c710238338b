package identity

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		user, err := h.User(t.Context(), h.ada)
		if err != nil || user.Email != ada || user.Name != "ada" || user.Status != StatusActive || len(user.Roles) != 1 || user.CreatedAt != h.ms.Load() {
			t.Errorf("%+v, %v", user, err)
		}
		for _, c := range []struct {
			name, word string
			user       NewUser
			code       fault.Code
		}{
			{"address taken in another case", "email", NewUser{Email: "ADA@example.org", Password: adaPass}, fault.CodeConflict},
			{"name taken in another case", "name", NewUser{Email: "x@example.org", Name: "ADA", Password: adaPass}, fault.CodeConflict},
			{"no address", "email", NewUser{Password: adaPass}, fault.CodeInvalid},
			{"no password", "password", NewUser{Email: "x@example.org"}, fault.CodeInvalid},
			{"weak password", "password", NewUser{Email: "x@example.org", Password: "password"}, fault.CodeInvalid},
			{"bad name", "name", NewUser{Email: "x@example.org", Name: "a b c", Password: adaPass}, fault.CodeInvalid},
		} {
			id, err := h.CreateUser(t.Context(), c.user)
			if id != 0 || !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%s: %d, %v", c.name, id, err)
			}
		}
		for _, email := range []string{"x@example.org", "y@example.org"} { // both without a name
			id := makeUser(t, h, email)
			if user, err := h.User(t.Context(), id); err != nil || user.Roles == nil || len(user.Roles) != 0 {
				t.Errorf("%+v, %v", user, err)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM users WHERE password LIKE '%Analytical%'"); n != 0 {
			t.Error("a password is stored as it is")
		}
	})
}

func TestListAndFindUsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		ids := []int64{h.ada, makeUser(t, h, "b@example.org"), makeUser(t, h, "c@example.org")}
		page, err := h.ListUsers(t.Context(), ids[0], 1)
		if err != nil || len(page) != 1 || page[0].ID != ids[1] {
			t.Errorf("second page of one: %+v, %v", page, err)
		}
		if all, err := h.ListUsers(t.Context(), 0, 100); err != nil || len(all) != 3 || all[2].ID != ids[2] {
			t.Errorf("all: %+v, %v", all, err)
		}
		for _, ref := range []string{strconv.FormatInt(ids[1], 10), "b@example.org", " B@EXAMPLE.org"} {
			if user, err := h.FindUser(t.Context(), ref); err != nil || user.ID != ids[1] {
				t.Errorf("find %q: %+v, %v", ref, user, err)
			}
		}
		for _, ref := range []string{"999", "nobody@example.org", "", "-1", "99999999999999999999"} {
			if _, err := h.FindUser(t.Context(), ref); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("find %q: %v", ref, err)
			}
		}
		if some, err := h.AnyUser(t.Context()); !some || err != nil {
			t.Errorf("any user: %v, %v", some, err)
		}
		change(t, db, "DELETE FROM users")
		if some, err := h.AnyUser(t.Context()); some || err != nil {
			t.Errorf("any user of none: %v, %v", some, err)
		}
	})
}

func TestDisableUserEndsEverySession(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		pairs := []string{h.signIn(t), h.signIn(t)}
		if err := h.DisableUser(t.Context(), h.ada); err != nil {
			t.Fatal(err)
		}
		for _, pair := range pairs {
			if authenticated(t, h, pair) {
				t.Error("a session of a disabled user is valid")
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM sessions"); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if w := h.login(ada, adaPass); w.Code != http.StatusUnauthorized {
			t.Errorf("a disabled user signs in: %d", w.Code)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'user.disable' AND actor = 'system'"); n != 1 {
			t.Errorf("%d audit entries", n)
		}
		if err := h.DisableUser(t.Context(), 999); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}

func TestSetAdmin(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		id := makeUser(t, h, bob)
		roles := func() string {
			user, err := h.User(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(user.Roles, ",")
		}
		for i, step := range []struct {
			admin bool
			want  string
			ends  bool
		}{{true, "admin", true}, {true, "admin", false}, {false, "", true}, {false, "", false}} {
			before := h.signInAs(t, bob)
			if err := h.SetAdmin(t.Context(), id, step.admin); err != nil {
				t.Fatal(err)
			}
			if roles() != step.want || authenticated(t, h, before) == step.ends {
				t.Errorf("step %d: roles %q, the session lives: %v", i, roles(), authenticated(t, h, before))
			}
		}
		if err := h.SetAdmin(t.Context(), 999, true); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}

func TestSetPassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		pair := h.signIn(t)
		for range 10 {
			h.login(ada, wrongPas)
		}
		if err := h.SetPassword(t.Context(), h.ada, "short"); !fault.Is(err, fault.CodeInvalid) || !authenticated(t, h, pair) {
			t.Errorf("a weak password: %v", err)
		}
		if err := h.SetPassword(t.Context(), h.ada, wrongPas); err != nil {
			t.Fatal(err)
		}
		if authenticated(t, h, pair) {
			t.Error("a session outlived the change of the password")
		}
		if w := h.login(ada, adaPass); w.Code != http.StatusUnauthorized {
			t.Errorf("old password: %d", w.Code)
		}
		if w := h.login(ada, wrongPas); w.Code != http.StatusOK {
			t.Errorf("new password: %d %s", w.Code, w.Body)
		}
		if err := h.SetPassword(t.Context(), 999, adaPass); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("nobody: %v", err)
		}
	})
}
