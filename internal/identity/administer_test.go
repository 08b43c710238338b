package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

func as(t testing.TB, user int64) context.Context {
	t.Helper()
	return access.With(t.Context(), &access.Caller{Kind: access.KindSession, UserID: user, SessionID: 1, Roles: []string{RoleAdmin}})
}

// The service never loses its last administrator: not by one demoting or
// disabling himself, and not by all of them doing it to each other at once.
func TestLastAdministrator(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, c := range []UserChange{{Admin: new(false)}, {Disabled: new(true)}, {Admin: new(false), Disabled: new(true)}} {
			if _, err := h.ChangeUser(as(t, h.ada), h.ada, c); !fault.Is(err, fault.CodeConflict) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		for round := range 6 {
			admins := []int64{h.ada}
			for i := range 4 {
				id := makeUser(t, h, fmt.Sprintf("admin%d-%d@example.org", round, i))
				if err := h.SetAdmin(t.Context(), id, true); err != nil {
					t.Fatal(err)
				}
				admins = append(admins, id)
			}
			if err := h.SetAdmin(t.Context(), h.ada, true); err != nil {
				t.Fatal(err)
			}
			if err := h.EnableUser(t.Context(), h.ada); err != nil {
				t.Fatal(err)
			}
			start := make(chan struct{})
			var group sync.WaitGroup
			for i, admin := range admins {
				group.Go(func() {
					<-start
					c := UserChange{Admin: new(false)}
					if i%2 == 0 {
						c = UserChange{Disabled: new(true)}
					}
					_, err := h.ChangeUser(as(t, admin), admins[(i+1)%len(admins)], c)
					if err != nil && !fault.Is(err, fault.CodeConflict) && !fault.Is(err, fault.CodeForbidden) {
						t.Error(err)
					}
				})
			}
			close(start)
			group.Wait()
			left, total, err := h.SearchUsers(t.Context(), UserFilter{Admins: true, Status: StatusActive}, web.Page{Limit: 10})
			if err != nil || total == 0 || len(left) == 0 {
				t.Fatalf("round %d left %d administrators, %v", round, total, err)
			}
			for _, u := range left {
				if u.ID != h.ada {
					if err := h.SetAdmin(t.Context(), u.ID, false); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// What an administrator does is told the user and recorded in both logs, ends
// the sessions, and is refused to one who was demoted a moment ago.
func TestAdministratorsChangeUsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		user := makeUser(t, h, "user@example.org")
		for _, tt := range []struct {
			change  UserChange
			subject string
		}{
			{UserChange{Disabled: new(true), Reason: "left the company"}, "Your account was disabled"},
			{UserChange{Disabled: new(true)}, ""},
			{UserChange{Disabled: new(false)}, "Your account is enabled again"},
			{UserChange{Admin: new(true)}, "You are an administrator from now on"},
			{UserChange{Admin: new(true)}, ""},
			{UserChange{Admin: new(false)}, "You are no longer an administrator"},
		} {
			if _, err := h.ChangeUser(as(t, h.ada), user, tt.change); err != nil {
				t.Fatal(err)
			}
			letters := h.work(t)
			if tt.subject == "" {
				if len(letters) != 0 {
					t.Errorf("%+v: %d letters", tt.change, len(letters))
				}
				continue
			}
			if len(letters) != 1 || letters[0].To != "user@example.org" || letters[0].Letter.Subject != tt.subject || !strings.Contains(strings.Join(letters[0].Letter.Paragraphs, " "), tt.change.Reason) {
				t.Errorf("%+v: %+v", tt.change, letters)
			}
		}
		if err := h.SignOutUser(as(t, h.ada), user, ""); err != nil || len(h.work(t)) != 1 {
			t.Error(err)
		}
		for name, err := range map[string]error{
			"sign-out": h.SignOutUser(as(t, user), h.ada, ""),
			"change":   func() error { _, err := h.ChangeUser(as(t, user), h.ada, UserChange{Admin: new(false)}); return err }(),
		} {
			if !fault.Is(err, fault.CodeForbidden) {
				t.Errorf("%s by one who is no administrator: %v", name, err)
			}
		}
		if _, err := h.ChangeUser(as(t, h.ada), 999, UserChange{Admin: new(true)}); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
	})
}

// Administrators find users by the beginning of address and name, in either case.
func TestSearchUsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, u := range []string{"bea@example.org Anna-B", "an-x@example.org -", "an.y@example.org -", "a%@example.org -", "zoë@example.org -"} {
			email, name, _ := strings.Cut(u, " ")
			if _, err := db.Writer().ExecContext(t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
				VALUES ($1, $2, '', '', $3, '[]', 1, 1)`, email, strings.TrimPrefix(name, "-"), map[bool]string{true: "DISABLED", false: "ACTIVE"}[strings.HasPrefix(email, "an-")]); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			f    UserFilter
			want string
		}{
			{UserFilter{}, "ada@example.org bea@example.org an-x@example.org an.y@example.org a%@example.org zoë@example.org"},
			{UserFilter{Search: "AN"}, "bea@example.org an-x@example.org an.y@example.org"},
			{UserFilter{Search: "an."}, "an.y@example.org"},
			{UserFilter{Search: "a%"}, "a%@example.org"},
			{UserFilter{Search: "ZOË"}, "zoë@example.org"},
			{UserFilter{Search: "example"}, ""},
			{UserFilter{Search: "a", Status: StatusDisabled}, "an-x@example.org"},
			{UserFilter{Search: "a", Admins: true}, "ada@example.org"},
			{UserFilter{Admins: true}, "ada@example.org"},
			{UserFilter{Admins: true, Status: StatusDisabled}, ""},
			{UserFilter{Status: StatusDisabled}, "an-x@example.org"},
		} {
			users, total, err := h.SearchUsers(t.Context(), tt.f, web.Page{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, u := range users {
				found = append(found, u.Email)
			}
			if got := strings.Join(found, " "); got != tt.want || int(total) != len(found) {
				t.Errorf("%+v: %q of %d, want %q", tt.f, got, total, tt.want)
			}
		}
		if users, total, err := h.SearchUsers(t.Context(), UserFilter{}, web.Page{Offset: 1, Limit: 1}); err != nil || total != 6 || len(users) != 1 || users[0].Email != "bea@example.org" {
			t.Errorf("%v of %d, %v", users, total, err)
		}
	})
}

// Whom an administrator invites chooses a password with the mailed code, or a
// later one, and cannot sign in before.
func TestInvite(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		user, err := h.Invite(as(t, h.ada), NewUser{Email: "New@example.org", Name: "newcomer", Admin: true})
		if err != nil || user.Status != StatusInactive || user.Email != "new@example.org" || !slices.Equal(user.Roles, []string{RoleAdmin}) {
			t.Fatalf("%+v, %v", user, err)
		}
		first := h.work(t)
		if err := h.InviteAgain(as(t, h.ada), user.ID); err != nil {
			t.Fatal(err)
		}
		second := h.work(t)
		if len(first) != 1 || len(second) != 1 || first[0].To != user.Email || first[0].Letter.Subject != "You have an account" {
			t.Fatalf("%+v, %+v", first, second)
		}
		const chosen = "Chosen-By-Nobody-Else-9"
		if r := h.general("reset-password", "email", user.Email, "verify_code", first[0].Letter.Code, "new_password", chosen); r.Code != 400 && first[0].Letter.Code != second[0].Letter.Code {
			t.Errorf("the earlier code: %d", r.Code)
		}
		if r := h.general("reset-password", "email", user.Email, "verify_code", second[0].Letter.Code, "new_password", chosen); r.Code != 200 {
			t.Fatalf("%d %s", r.Code, r.Body)
		}
		if r := h.general("login", "email", user.Email, "password", chosen); r.Code != 200 {
			t.Errorf("%d %s", r.Code, r.Body)
		}
		if err := h.InviteAgain(as(t, h.ada), user.ID); !fault.Is(err, fault.CodeConflict) {
			t.Error(err)
		}
		for _, n := range []NewUser{{Email: user.Email}, {Email: "x@example.org", Name: "Newcomer"}} {
			if _, err := h.Invite(as(t, h.ada), n); !fault.Is(err, fault.CodeConflict) {
				t.Errorf("%+v: %v", n, err)
			}
		}
	})
}
