package names

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestFirstCome(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		e.want(bob, "", "www.example.com")
		e.succeed(alice, "www.example.com")
		e.want(alice, "", "example.com", "a.b.example.com", "*.example.com")
		e.want(bob, KeyTaken, "www.example.com", "example.com", "a.b.example.com", "*.example.com", "certs.example.org", "192.0.2.1")
		e.want(bob, "", "example.net", "www.example.org")
		if got := e.actions(alice); !slices.Equal(got, []string{"name.claim"}) {
			t.Errorf("the log says %v", got)
		}
		e.succeed(alice, "me.github.io")
		e.want(bob, "", "you.github.io")
		e.want(bob, KeyTaken, "me.github.io")
		e.want(alice, KeyUnproved, "*.github.io")
		e.exec("DELETE FROM users WHERE id = 1")
		e.want(bob, KeyTaken, "www.example.com") // for a while
	})
}

// What is validated by a CA that nobody named, or was valid before, or is this
// server's own, claims nothing; an attempt without a certificate gives back.
func TestWhatClaimsNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		try := func(change func(*Attempt)) {
			t.Helper()
			a := Attempt{Order: Order{UserID: carol, Names: []string{"www.example.com"}}, IssuanceID: e.attempt(carol), Directory: directory, Validated: []string{"www.example.com"}}
			change(&a)
			err := e.tx(func(tx *sqldb.Tx) error {
				return errors.Join(e.s.Finalize(context.Background(), tx, a), e.s.Issued(context.Background(), tx, a.IssuanceID))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		try(func(a *Attempt) { a.Directory = "https://elsewhere.example.net/directory" })
		try(func(a *Attempt) { a.Validated = nil })
		try(func(a *Attempt) { a.Names, a.Validated = []string{"certs.example.org"}, []string{"certs.example.org"} })
		id, err := e.finalize(e.s, alice, "www.example.com")
		if err != nil {
			t.Fatal(err)
		}
		e.want(bob, KeyTaken, "www.example.com") // while the attempt lasts
		if err := e.tx(func(tx *sqldb.Tx) error { return e.s.Ended(context.Background(), tx, id) }); err != nil {
			t.Fatal(err)
		}
		e.want(bob, "", "www.example.com", "shop.example.org")
		if id, err = e.finalize(e.s, alice, "www.example.com"); err != nil {
			t.Fatal(err)
		}
		e.exec("DELETE FROM certificates WHERE id = (SELECT cert_id FROM issuances WHERE id = $1)", id)
		e.want(bob, "", "www.example.com")
		try(func(a *Attempt) { a.Directory, a.BuiltIn = "https://built-in.example.net", true })
		e.want(bob, KeyTaken, "www.example.com")
	})
}

// Two users come at the same moment, to two nodes where there can be two: one
// of them claims, the other is refused before the order is finalised.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		nodes := []*Service{e.s, e.node()}
		for range 10 {
			var group sync.WaitGroup
			keys := make([]string, 6)
			for k := range keys {
				id := e.attempt([]int64{alice, bob}[k%2])
				list := []string{"a.example.com", "b.example.net"}
				if k%4 > 1 {
					slices.Reverse(list) // in the other order
				}
				group.Go(func() {
					keys[k] = keyOf(t, e.tx(func(tx *sqldb.Tx) error {
						return nodes[k%2].Finalize(context.Background(), tx, Attempt{
							Order: Order{UserID: []int64{alice, bob}[k%2], Names: list}, IssuanceID: id, Directory: directory, Validated: list,
						})
					}))
				})
			}
			group.Wait()
			won := map[int]bool{}
			for k, key := range keys {
				if key == "" {
					won[k%2] = true
				} else if key != KeyTaken {
					t.Errorf("attempt %d: %s", k, key)
				}
			}
			if len(won) != 1 {
				t.Errorf("%v: won by %v, want one user", keys, won)
			}
			e.exec("DELETE FROM name_claims")
		}
	})
}

// A domain of which very many parts are held is judged by the nearest as any.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	e := newEnv(t, db)
	err := e.tx(func(tx *sqldb.Tx) error {
		for k := range manyClaims + 20 {
			name := string([]byte{'a' + byte(k/26), 'a' + byte(k%26)}) + ".example.com"
			if err := e.s.insert(context.Background(), tx, alice, name, stateHeld, proofTXT, 0); err != nil {
				return err
			}
		}
		return e.s.insert(context.Background(), tx, bob, "zz.example.com", stateHeld, proofTXT, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	e.want(bob, "", "zz.example.com", "x.zz.example.com")
	e.want(alice, KeyTaken, "zz.example.com", "x.zz.example.com")
	e.want(bob, KeyUnproved, "other.example.com")
}

func TestProvedPolicy(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	e := newEnv(t, db, func(d *Deps) { d.Proved = true })
	var sentences []string
	err := e.tx(func(tx *sqldb.Tx) (err error) {
		sentences, err = e.s.Missing(context.Background(), tx, Order{UserID: alice, Names: []string{"www.example.com", "*.www.example.com", "x.internal"}})
		return err
	})
	record := e.s.record(alice, "www.example.com")
	if err != nil || len(sentences) != 3 || record.Name != "_certharbor.www.example.com" || record == e.s.record(bob, "www.example.com") || record != e.node().record(alice, "www.example.com") {
		t.Errorf("%v %v %v", sentences, record, err)
	}
	e.want(alice, KeyUnproved, "www.example.com", "x.internal")
	if _, err := e.finalize(e.s, alice, "www.example.com"); keyOf(t, err) != KeyUnproved {
		t.Errorf("finalised without a proof: %v", err)
	}
}
