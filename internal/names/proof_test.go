package names

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

// prove begins a proof and verifies it.
func (e *env) prove(userID int64, name string) (Claim, error) {
	e.t.Helper()
	c, _, err := e.s.Begin(e.t.Context(), userID, name)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.s.Verify(e.t.Context(), userID, c.ID)
}

func (e *env) mustProve(userID int64, name string) Claim {
	e.t.Helper()
	e.set(userID, name, true)
	c, err := e.prove(userID, name)
	if err != nil || c.State != stateHeld {
		e.t.Fatalf("user %d, %s: %+v %v", userID, name, c, err)
	}
	return c
}

func TestProveAName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db, func(d *Deps) { d.Proved = true })
		for _, entry := range []string{"", "*.example.com", "192.0.2.1", "localhost", "x.internal", "a b"} {
			if _, _, err := e.s.Begin(t.Context(), alice, entry); !fault.Is(err, fault.CodeInvalid) {
				t.Errorf("%q: %v", entry, err)
			}
		}
		if _, _, err := e.s.Begin(t.Context(), alice, "certs.example.org"); keyOf(t, err) != KeyTaken {
			t.Errorf("the server's own: %v", err)
		}
		c, err := e.prove(alice, "WWW.Example.com.")
		if err != nil || c.State != statePending || c.Reason == "" || c.Record.Name != "_certharbor.www.example.com" || c.Record.Value == "" {
			t.Fatalf("%+v %v", c, err)
		}
		e.silent["_certharbor.www.example.com"] = true
		if c, err = e.s.Verify(t.Context(), alice, c.ID); err != nil || c.State != statePending || !strings.Contains(c.Reason, "1 of 2") {
			t.Errorf("%+v %v", c, err)
		}
		delete(e.silent, "_certharbor.www.example.com")
		e.want(alice, KeyUnproved, "www.example.com")
		c = e.mustProve(alice, "www.example.com")
		e.want(alice, "", "www.example.com", "a.www.example.com")
		e.want(alice, KeyUnproved, "example.com")
		e.want(bob, KeyTaken, "www.example.com")
		e.want(bob, KeyUnproved, "example.com")
		list, total, err := e.s.List(t.Context(), alice, web.Page{Limit: 10})
		if err != nil || total != 1 || list[0].State != stateHeld || list[0].Proof != proofTXT {
			t.Errorf("%+v %d %v", list, total, err)
		}
		if _, err := e.s.Get(t.Context(), bob, c.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("bob reads it: %v", err)
		}
		if err := e.s.Release(t.Context(), bob, c.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("bob releases it: %v", err)
		}
		// Who has the password alone must not make the name free for an account of their own.
		e.stale = true
		if err := e.s.Release(t.Context(), alice, c.ID); !fault.Is(err, fault.CodeStepUpRequired) {
			t.Errorf("without a fresh proof: %v", err)
		}
		e.stale = false
		e.want(bob, KeyTaken, "www.example.com")
		if err := e.s.Release(t.Context(), alice, c.ID); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d name-released", alice); !slices.Contains(e.letters, want) {
			t.Errorf("letters: %v", e.letters)
		}
		e.want(alice, KeyUnproved, "www.example.com")
		if got, want := e.actions(alice), []string{"name.begin", "name.claim", "name.release"}; !slices.Equal(got, want) {
			t.Errorf("the log says %v, want %v", got, want)
		}
	})
}

// A record takes a name away, as far as it reaches; the holder's own record
// bars that, and so does one that cannot be looked up.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		e.succeed(alice, "www.example.com")
		e.set(alice, "example.com", true)
		e.set(bob, "www.example.com", true)
		if _, err := e.prove(bob, "www.example.com"); keyOf(t, err) != KeyTaken {
			t.Errorf("past a standing record: %v", err)
		}
		e.set(alice, "example.com", false)
		e.silent["_certharbor.example.com"] = true
		if _, err := e.prove(bob, "www.example.com"); !fault.Is(err, fault.CodeUnavailable) {
			t.Errorf("past a record that cannot be looked up: %v", err)
		}
		delete(e.silent, "_certharbor.example.com")
		c := e.mustProve(bob, "www.example.com")
		e.want(bob, "", "www.example.com", "a.www.example.com")
		e.want(bob, KeyTaken, "example.com", "api.example.com")
		e.want(alice, KeyTaken, "www.example.com")
		e.want(alice, "", "example.com", "api.example.com")
		if got, err := e.s.Get(t.Context(), bob, c.ID); err != nil || len(got.StillValid) != 1 || got.StillValid[0].SerialNumber != "1" {
			t.Errorf("%+v %v", got, err)
		}
		if !slices.Contains(e.withdrawn, "example.com") || !slices.Contains(e.judged, alice) || !slices.Contains(e.letters, "1 name-lost") {
			t.Errorf("withdrawn %v, judged %v, letters %v", e.withdrawn, e.judged, e.letters)
		}
		if got := e.actions(alice); !slices.Contains(got, "name.lost") || !slices.Contains(e.actions(bob), "name.take_over") {
			t.Errorf("the logs say %v and %v", got, e.actions(bob))
		}

		// From the top everything below goes along, but for what is barred.
		e.mustProve(carol, "api.example.com")
		e.set(bob, "www.example.com", false)
		e.mustProve(carol, "example.com")
		e.want(carol, "", "example.com", "www.example.com", "api.example.com")
		e.want(alice, KeyTaken, "example.com")
		e.set(carol, "example.com", false)
		e.mustProve(bob, "example.com")
		e.want(bob, "", "example.com", "www.example.com")
		e.want(carol, "", "api.example.com") // whose record stands
	})
}

// A record that cannot be looked up is not gone; one that is gone warns at once
// and stops renewals after 30 days; one that is back sets all right.
func TestRecheck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		e.mustProve(alice, "example.com")
		pass := func(d time.Duration) {
			t.Helper()
			e.now.Add(d.Milliseconds())
			if err := e.s.sweep(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		pass(recheck)
		e.set(alice, "example.com", false)
		e.silent["_certharbor.example.com"] = true
		for range 40 {
			pass(recheck)
		}
		if len(e.letters) != 0 {
			t.Errorf("letters about a record that cannot be looked up: %v", e.letters)
		}
		delete(e.silent, "_certharbor.example.com")
		pass(recheck)
		if !slices.Equal(e.letters, []string{"1 name-proof-lost"}) || !slices.Contains(e.actions(alice), "name.proof_lost") {
			t.Errorf("letters %v, log %v", e.letters, e.actions(alice))
		}
		for range 29 {
			pass(recheck)
		}
		e.want(alice, "", "www.example.com")
		pass(recheck)
		pass(recheck)
		e.want(alice, KeyUnproved, "www.example.com")
		e.want(bob, KeyTaken, "www.example.com")
		if !slices.Equal(e.letters, []string{"1 name-proof-lost", "1 name-lapsed"}) {
			t.Errorf("letters %v", e.letters)
		}
		e.set(alice, "example.com", true)
		pass(recheck)
		e.want(alice, "", "www.example.com")
	})
}

// One user's records are looked for a few at a time, however many are due.
func TestRechecksTakeTurns(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	for _, name := range []string{"a.com", "b.com", "c.com", "d.com", "e.com"} {
		e.mustProve(alice, name)
	}
	e.now.Add(1)
	e.mustProve(bob, "x.com")
	e.now.Add(recheck.Milliseconds())
	if err := e.s.recheckAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var alices, bobs int
	now := e.now.Load()
	for user, n := range map[int64]*int{alice: &alices, bob: &bobs} {
		if err := e.db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM name_claims WHERE user_id = $1 AND checked_at = $2", user, now).Scan(n); err != nil {
			t.Fatal(err)
		}
	}
	if alices != checkOfUser || bobs != 1 {
		t.Errorf("%d of alice's and %d of bob's were looked for", alices, bobs)
	}
}

// What a user may begin and look up is bounded.
func TestBoundsOfProofs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	c, _, err := e.s.Begin(t.Context(), alice, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	for k := range checksAnHour {
		if _, err := e.s.Verify(t.Context(), alice, c.ID); err != nil {
			t.Fatalf("look-up %d: %v", k, err)
		}
	}
	if _, err := e.s.Verify(t.Context(), alice, c.ID); !fault.Is(err, fault.CodeRateLimited) {
		t.Errorf("one look-up too many: %v", err)
	}
	for k := range maxPending - 1 {
		if _, _, err := e.s.Begin(t.Context(), alice, string([]byte{'a' + byte(k/26), 'a' + byte(k%26)})+".example.com"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := e.s.Begin(t.Context(), alice, "one.more.com"); keyOf(t, err) != "QUOTA" {
		t.Errorf("one name too many: %v", err)
	}
	leave, err := e.s.enter(t.Context(), bob)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.enter(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.enter(t.Context(), bob); !fault.Is(err, fault.CodeRateLimited) {
		t.Errorf("three at once: %v", err)
	}
	leave()
	if _, err := e.s.enter(t.Context(), bob); err != nil {
		t.Error(err)
	}
	e.now.Add(staleAge.Milliseconds() + 1)
	if err := e.s.clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, total, err := e.s.List(t.Context(), alice, web.Page{Limit: 1}); err != nil || total != 0 {
		t.Errorf("%d names are left: %v", total, err)
	}
}
