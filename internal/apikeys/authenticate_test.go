package apikeys

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const five, six = "GET /apiv1/me/certificates/5", "GET /apiv1/me/certificates/6"

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		key := e.make(readFive)
		e.call(key.Token, five, "").want(t, 200, 0)
		e.call(key.Token, "GET /apiv1/users/1/certificates/5", "").want(t, 200, 0)
		e.call(key.Token, "GET /apiv1/users/2/certificates/5", "").want(t, 403, fault.CodeForbidden)
		e.call(key.Token, six, "").want(t, 404, fault.CodeNotFound)
		for _, line := range []string{"GET ", "DELETE ", "PATCH "} { // a key manages no keys, itself neither
			e.call(key.Token, line+key.item(), `{"name":"x"}`).want(t, 403, fault.CodeForbidden)
		}
		e.call(key.Token, "POST "+collection, `{"name":"n","expires_in_seconds":60,"permissions":`+readFive+`}`).want(t, 403, fault.CodeForbidden)
		e.call(key.Token, "GET "+collection, "").want(t, 403, fault.CodeForbidden)

		caller, err := e.Authenticate(t.Context(), key.Token)
		if err != nil || caller.Kind != access.KindKey || caller.UserID != alice || caller.KeyID != key.ID || caller.Roles != nil || caller.SessionID != 0 {
			t.Errorf("%+v %v", caller, err)
		}

		// Changed permissions count from the next request on.
		e.call(alice, "PATCH "+key.item(), `{"permissions":[{"obtype":"certificates","obid":"6","actions":["read"]}]}`).want(t, 200, 0)
		e.call(key.Token, five, "").want(t, 404, fault.CodeNotFound)
		e.call(key.Token, six, "").want(t, 200, 0)
		e.call(alice, "PATCH "+key.item(), `{"permissions":[{"obtype":"certificates","obid":"6","actions":["issue"]}]}`).want(t, 200, 0)
		e.call(key.Token, six, "").want(t, 403, fault.CodeForbidden)
	})
}

// Whatever is wrong with a key, the answer is the same.
func TestRefusedKeysAreAlike(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		expired, revoked, disabled := e.make(readFive), e.make(readFive), e.make(readFive)
		for _, key := range []CreatedKey{expired, revoked, disabled} {
			e.call(key.Token, five, "").want(t, 200, 0)
		}
		e.clock.Add(3600_000 - 1)
		e.call(expired.Token, five, "").want(t, 200, 0) // to the last millisecond
		e.clock.Add(1)
		answers := map[string]answer{"expired": e.call(expired.Token, five, "")}
		e.clock.Add(-10_000)
		e.call(alice, "DELETE "+revoked.item(), "").want(t, 204, 0)
		answers["revoked"] = e.call(revoked.Token, five, "")
		e.exec(db, "UPDATE users SET status = 'DISABLED' WHERE id = $1", alice) // as another process would
		answers["of a disabled user"] = e.call(disabled.Token, five, "")
		e.exec(db, "UPDATE users SET status = 'INACTIVE' WHERE id = $1", alice)
		answers["of an inactive user"] = e.call(disabled.Token, five, "")
		e.exec(db, "UPDATE users SET status = 'ACTIVE' WHERE id = $1", alice)
		e.call(disabled.Token, five, "").want(t, 200, 0)
		for name, token := range map[string]string{
			"unknown": seal.NewToken(tokenPrefix, tokenBytes), "cut": disabled.Token[:45], "longer": disabled.Token + "A", "the prefix": "ak_", "huge": "ak_" + strings.Repeat("A", 5000),
			"of another case": "ak_" + strings.ToUpper(disabled.Token[3:]), "a digest": "ak_" + hex.EncodeToString(seal.HashToken(disabled.Token))[:43], "with a blank": disabled.Token + " x",
		} {
			answers[name] = e.call(token, five, "")
		}
		for name, a := range answers {
			a.want(t, 401, fault.CodeUnauthorized)
			if a.raw != answers["unknown"].raw || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %s", name, a.raw)
			}
		}
	})
}

// Within the transaction that acts for a key, Check sees what became of it.
func TestCheck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		check := func(ctx context.Context, id int64) error {
			return db.InTx(ctx, func(tx *sqldb.Tx) error { return e.Check(ctx, tx, id) })
		}
		key := e.make(readFive)
		caller, err := e.Authenticate(t.Context(), key.Token)
		if err != nil {
			t.Fatal(err)
		}
		ctx := access.With(t.Context(), caller)
		if err := check(ctx, key.ID); err != nil {
			t.Errorf("good: %v", err)
		}
		e.call(alice, "PATCH "+key.item(), `{"name":"other"}`).want(t, 200, 0)
		if err := check(ctx, key.ID); err != nil {
			t.Errorf("renamed: %v", err)
		}
		e.call(alice, "PATCH "+key.item(), `{"permissions":[{"obtype":"certificates","obid":"6","actions":["read"]}]}`).want(t, 200, 0)
		if err := check(ctx, key.ID); !fault.Is(err, fault.CodeForbidden) {
			t.Errorf("other permissions: %v", err)
		}
		e.call(alice, "PATCH "+key.item(), `{"permissions":`+readFive+`}`).want(t, 200, 0)
		for what, query := range map[string]string{
			"expired": "UPDATE api_keys SET expires_at = 1", "disabled": "UPDATE users SET status = 'DISABLED'",
		} {
			err := db.InTx(ctx, func(tx *sqldb.Tx) error {
				if _, err := tx.ExecContext(ctx, query); err != nil {
					return err
				}
				return e.Check(ctx, tx, key.ID) // the error takes the change back
			})
			if !fault.Is(err, fault.CodeUnauthorized) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := check(ctx, key.ID); err != nil {
			t.Errorf("good again: %v", err)
		}
		e.call(alice, "DELETE "+key.item(), "").want(t, 204, 0)
		if err := check(ctx, key.ID); !fault.Is(err, fault.CodeUnauthorized) {
			t.Errorf("revoked: %v", err)
		}
	})
}

// A revocation is answered after what the key was checked for has happened, or
// the check fails: never in between.
func TestRevocationWaitsForWhatItWouldOvertake(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		key := e.make(readFive)
		var committed atomic.Bool
		checked, revoked := make(chan struct{}), make(chan error)
		go func() {
			<-checked
			err := e.Delete(context.Background(), alice, key.ID)
			if err == nil && !committed.Load() {
				err = errors.New("the revocation overtook the transaction")
			}
			revoked <- err
		}()
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			if err := e.Check(t.Context(), tx, key.ID); err != nil {
				return err
			}
			close(checked)
			select {
			case err := <-revoked:
				return fmt.Errorf("revoked while it was held: %w", err)
			case <-time.After(100 * time.Millisecond): // long enough for one that does not wait
			}
			committed.Store(true)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-revoked; err != nil {
			t.Fatal(err)
		}
	})
}

func TestLastUse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		used, unused := e.make(readFive), e.make(readFive)
		stored := func(id int64) int64 { return e.count("SELECT last_used_at FROM api_keys WHERE id = $1", id) }
		shown := func(key CreatedKey) (k APIKey) {
			e.call(alice, "GET "+key.item(), "").want(t, 200, 0).data(t, &k)
			return k
		}
		e.clock.Add(5000)
		at := e.clock.Load()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if _, err := e.Authenticate(t.Context(), used.Token); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if stored(used.ID) != 0 {
			t.Error("a request wrote")
		}
		if shown(used).LastUsedAt != at || shown(unused).LastUsedAt != 0 {
			t.Errorf("shown %d and %d, want %d and 0", shown(used).LastUsedAt, shown(unused).LastUsedAt, at)
		}
		if err := e.WriteUses(t.Context()); err != nil || stored(used.ID) != at || stored(unused.ID) != 0 {
			t.Errorf("written %d and %d: %v", stored(used.ID), stored(unused.ID), err)
		}
		// Nothing new is nothing to write; an older use of another node neither.
		e.exec(db, "UPDATE api_keys SET last_used_at = last_used_at + 1")
		if err := e.WriteUses(t.Context()); err != nil || stored(used.ID) != at+1 {
			t.Errorf("written again: %d %v", stored(used.ID), err)
		}
		e.clock.Add(10)
		e.call(used.Token, five, "").want(t, 200, 0)
		e.exec(db, "UPDATE api_keys SET last_used_at = $1", at+99)
		if err := e.WriteUses(t.Context()); err != nil || stored(used.ID) != at+99 {
			t.Errorf("an older use was written over a newer one: %d %v", stored(used.ID), err)
		}
		e.call(used.Token, "GET /apiv1/me/certificates/6", "").want(t, 404, fault.CodeNotFound) // refused, yet used
		e.call(alice, "DELETE "+used.item(), "").want(t, 204, 0)
		if err := e.WriteUses(t.Context()); err != nil {
			t.Errorf("of a deleted key: %v", err)
		}
		e.clock.Add(2 * forgetAfter.Milliseconds())
		if err := e.WriteUses(t.Context()); err != nil {
			t.Error(err)
		}
		e.known.Range(func(id, _ any) bool { t.Errorf("key %v is not forgotten", id); return true })
	})
}

func TestUsesAreWrittenInTheBackground(t *testing.T) {
	t.Parallel()
	config := dbtest.SQLiteConfig(t)
	var fails atomic.Bool
	config.CommitFault = fails.Load
	e := newEnv(t, dbtest.Open(t, config))
	key := e.make(readFive)
	stored := func() int64 { return e.count("SELECT last_used_at FROM api_keys") }
	e.UseInterval = time.Millisecond
	e.Start(t.Context())
	e.call(key.Token, five, "").want(t, 200, 0)
	first := e.clock.Load()
	deadline, tick := time.After(2*time.Minute), time.Tick(time.Millisecond)
	for stored() != first {
		select {
		case <-deadline:
			t.Fatal("nothing was written")
		case <-tick:
		}
	}
	// One that was not confirmed is written again, and Stop writes the rest.
	fails.Store(true)
	e.clock.Add(1000)
	e.call(key.Token, five, "").want(t, 200, 0)
	if err := e.Stop(t.Context()); !sqldb.Is(err, sqldb.ErrUncertain) {
		t.Fatalf("stop: %v", err)
	}
	fails.Store(false)
	e.exec(e.DB, "UPDATE api_keys SET last_used_at = 0")
	if err := e.Stop(t.Context()); err != nil || stored() != first+1000 {
		t.Fatalf("stop again: %d %v", stored(), err)
	}
}
