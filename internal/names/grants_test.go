package names

import (
	"slices"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

func (e *env) renews(userID int64, name string) string {
	e.t.Helper()
	return keyOf(e.t, e.s.Check(e.t.Context(), e.db.Reader(), Order{UserID: userID, Names: []string{name}, Existing: true}))
}

func TestGrants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		held := e.mustProve(alice, "example.com").ID
		for _, bad := range []GrantDraft{
			{User: bob, Pattern: "example.net"}, {User: bob, Pattern: "*.com"}, {User: alice, Pattern: "example.com"}, {User: 99, Pattern: "example.com"},
			{User: bob, Pattern: "example.com", Expires: 1}, {User: bob, Pattern: "a.*.example.com"},
		} {
			if _, err := e.s.Grant(t.Context(), alice, held, bad); !fault.Is(err, fault.CodeInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, err := e.s.Grant(t.Context(), bob, held, GrantDraft{User: bob, Pattern: "example.com"}); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("bob grants alice's name: %v", err)
		}
		e.stale = true
		if _, err := e.s.Grant(t.Context(), alice, held, GrantDraft{User: bob, Pattern: "example.com"}); !fault.Is(err, fault.CodeStepUpRequired) {
			t.Errorf("without a fresh proof: %v", err)
		}
		e.stale = false
		g, err := e.s.Grant(t.Context(), alice, held, GrantDraft{User: bob, Pattern: "*.Example.com"})
		if err != nil || g.Pattern != "*.example.com" {
			t.Fatalf("%+v %v", g, err)
		}
		e.want(bob, "", "www.example.com")
		e.want(bob, KeyTaken, "example.com", "a.www.example.com", "*.example.com")
		if err := e.s.Ungrant(t.Context(), alice, held, g.ID); err != nil {
			t.Fatal(err)
		}
		e.want(bob, KeyTaken, "www.example.com")
		if got := e.renews(bob, "www.example.com"); got != "" {
			t.Errorf("a renewal in the week after: %q", got)
		}
		e.now.Add(notice.Milliseconds())
		if err := e.s.sweepGrants(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := e.renews(bob, "www.example.com"); got != KeyTaken {
			t.Errorf("a renewal after the week: %q", got)
		}
		if list, err := e.s.Grants(t.Context(), alice, held); err != nil || len(list) != 0 {
			t.Errorf("%+v %v", list, err)
		}

		// One with an end is announced a week before.
		e.letters = nil
		_, err = e.s.Grant(t.Context(), alice, held, GrantDraft{User: bob, Pattern: "www.example.com", Expires: e.now.Load() + (10 * 24 * time.Hour).Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if err := e.s.sweepGrants(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.now.Add((24 * time.Hour).Milliseconds())
		}
		if want := []string{"1 name-grant", "2 name-grant", "2 name-grant-ends"}; !slices.Equal(e.letters, want) {
			t.Errorf("letters %v, want %v", e.letters, want)
		}
		if got := e.renews(bob, "www.example.com"); got != KeyTaken || !slices.Contains(e.judged, bob) {
			t.Errorf("a renewal after the end: %q, judged %v", got, e.judged)
		}
		for _, user := range []int64{alice, bob} {
			log := e.actions(user)
			for _, action := range []string{"name.grant", "name.ungrant", "name.grant_ended"} {
				if !slices.Contains(log, action) {
					t.Errorf("the log of user %d misses %s: %v", user, action, log)
				}
			}
		}
	})
}

func TestAdministratorsAndNames(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		for _, name := range []string{"lan.internal", "192.0.2.7", "intranet"} {
			if _, _, err := e.s.Give(t.Context(), carol, bob, name); err != nil {
				t.Fatal(err)
			}
			e.want(bob, "", name)
			e.want(alice, KeyTaken, name)
		}
		e.succeed(alice, "example.com")
		if _, _, err := e.s.Give(t.Context(), carol, bob, "example.com"); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("given away over alice's head: %v", err)
		}
		list, total, err := e.s.Find(t.Context(), Search{Name: "www.example.com"}, web.Page{Limit: 10})
		if err != nil || total != 1 || list[0].UserID != alice {
			t.Fatalf("%+v %d %v", list, total, err)
		}
		moved, err := e.s.Move(t.Context(), carol, list[0].ID, bob)
		if err != nil || moved.UserID != bob {
			t.Fatalf("%+v %v", moved, err)
		}
		e.want(bob, "", "example.com")
		e.want(alice, KeyTaken, "example.com")
		for _, letter := range []string{"1 name-lost", "2 name-given"} {
			if !slices.Contains(e.letters, letter) {
				t.Errorf("letters %v miss %q", e.letters, letter)
			}
		}
		if err := e.s.Free(t.Context(), carol, moved.ID); err != nil {
			t.Fatal(err)
		}
		e.want(alice, "", "example.com")
		if _, total, err := e.s.Find(t.Context(), Search{State: stateHeld}, web.Page{Limit: 1}); err != nil || total != 3 {
			t.Errorf("%d are held: %v", total, err)
		}
		if got := e.actions(carol); !slices.Contains(got, "admin.name.give") || !slices.Contains(got, "admin.name.release") {
			t.Errorf("the administrator's log says %v", got)
		}
		if err := e.s.Free(t.Context(), carol, 999); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
	})
}

// At an upgrade the earliest certificate claims; who had certificates there too
// goes on renewing them and is listed. Two nodes may take the step at once.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		e.past = []Success{
			{UserID: bob, Names: []string{"www.example.com", "example.net"}, BuiltIn: true},
			{UserID: alice, Names: []string{"example.com"}, BuiltIn: true},
			{UserID: alice, Names: []string{"example.com", "certs.example.org"}, Directory: directory},
			{UserID: carol, Names: []string{"example.edu"}, Directory: "https://elsewhere.example.net/"},
		}
		second := e.node()
		errs := make(chan error, 2)
		for _, s := range []*Service{e.s, second} {
			go func() { errs <- s.Upgrade(t.Context()) }()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		e.past = []Success{{UserID: alice, Names: []string{"late.com"}, BuiltIn: true}}
		if err := e.s.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.want(bob, "", "example.com", "example.net", "late.com", "example.edu")
		e.want(alice, KeyTaken, "example.com")
		if got := e.renews(alice, "example.com"); got != "" {
			t.Errorf("a clash does not renew: %s", got)
		}
		if got := e.renews(carol, "example.com"); got != KeyTaken {
			t.Errorf("another's renewal: %q", got)
		}
		list, total, err := e.s.Find(t.Context(), Search{State: stateClash}, web.Page{Limit: 10})
		if err != nil || total != 1 || list[0].UserID != alice || list[0].Name != "example.com" {
			t.Errorf("%+v %d %v", list, total, err)
		}
	})
}
