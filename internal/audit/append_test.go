package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Transactions that record for several users in any order, before and after
// they lock rows of their own in any order, wait for one another and never in a
// circle through the log: PostgreSQL counts the deadlocks that it broke.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		const workers, rounds, users = 12, 25, 3
		for user := range int64(users) {
			h.must("INSERT INTO settings (name, value) VALUES ($1, $2)", fmt.Sprint("row", user), []byte("x"))
		}
		lock := func(tx *sqldb.Tx, user int64) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE settings SET value = value WHERE name = $1", fmt.Sprint("row", user))
			return err
		}
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range rounds {
					order := rand.Perm(users + 1) // 0: nobody
					own := rand.Int64N(users)     // one row: two would be a circle of their own
					err := h.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
						for i, user := range order {
							if i == 2 { // in the midst of recording
								if err := lock(tx, own); err != nil {
									return err
								}
							}
							if err := h.Record(t.Context(), tx, audit.Entry{UserID: int64(user), Action: "thing.do"}); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if h.db.Dialect() == sqldb.Postgres {
			if n := h.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
				t.Errorf("%d deadlocks", n)
			}
		}
		// Each transaction has four entries, and each user's chain was begun once.
		if v := h.whole(); v.Entries != workers*rounds*(users+1)+users {
			t.Errorf("%d entries", v.Entries)
		}
	})
}

// While others record, verifying finds nothing wrong.
func TestVerifyBesideWriters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for worker := range int64(4) {
			group.Go(func() {
				for n := int64(0); ctx.Err() == nil; n++ {
					h.record(t.Context(), "thing.do", worker, n%30)
				}
			})
		}
		for range 5 {
			h.whole()
		}
		stop()
		group.Wait()
		h.whole()
	})
}

// An entry is there exactly when its transaction is.
func TestRecordedWithTheTransaction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		mine := errors.New("mine")
		err := h.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			return errors.Join(h.Record(t.Context(), tx, audit.Entry{UserID: 1, Action: "thing.do"}), mine)
		})
		if !errors.Is(err, mine) || h.number("SELECT COUNT(*) FROM audit_log")+h.number("SELECT COUNT(*) FROM audit_heads WHERE user_id > 0") != 0 {
			t.Errorf("%v", err)
		}
		h.record(t.Context(), "thing.do", 1)
		if v := h.whole(); v.Entries != 2 {
			t.Errorf("%d entries", v.Entries)
		}
		closed := audit.Closed(mine)
		err = h.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			return closed.Record(t.Context(), tx, audit.Entry{UserID: 1, Action: "thing.do"})
		})
		if !errors.Is(err, mine) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Who did it, and from where.
func TestActors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		callers := map[string]*access.Caller{
			"session 7": {Kind: access.KindSession, SessionID: 7}, "key 8": {Kind: access.KindKey, KeyID: 8},
			"device 9": {Kind: access.KindDevice, DeviceID: 9}, "worker": {Kind: access.KindWorker}, "system": nil,
		}
		for actor, c := range callers {
			ctx := t.Context()
			if c != nil {
				ctx = access.With(ctx, c)
			}
			h.record(ctx, "thing."+strings.Fields(actor)[0], 1)
			if n := h.number("SELECT COUNT(*) FROM audit_log WHERE actor = $1 AND action = $2 AND ip = '' AND request_id = ''", actor, "thing."+strings.Fields(actor)[0]); n != 1 {
				t.Errorf("%s: %d entries", actor, n)
			}
		}
		m := web.New(web.Options{Log: discard()})
		web.Raw(m, "POST /thing", access.Public(), 0, func(_ http.ResponseWriter, r *http.Request) error {
			h.record(r.Context(), "thing.anonymous", 1)
			return nil
		})
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/thing", nil)
		r.Header.Set("User-Agent", "a\xff\x00b"+strings.Repeat("c", 300))
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		n := h.number("SELECT COUNT(*) FROM audit_log WHERE actor = 'anonymous' AND ip = '192.0.2.1' AND request_id = $1 AND user_agent = $2",
			w.Header().Get("X-Request-Id"), "ab"+strings.Repeat("c", 196))
		if n != 1 {
			t.Errorf("%d entries of the request", n)
		}
		h.whole()
	})
}

// A head that was set back as a whole stops the log where it would be written
// over, and is no conflict of the caller's.
func TestHeadSetBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.record(t.Context(), "thing.do", 1)
		h.defenceless()
		h.must("CREATE TABLE kept AS SELECT " + headColumns + " FROM audit_heads WHERE user_id = 1")
		h.record(t.Context(), "thing.do", 1)
		h.must("DELETE FROM audit_heads WHERE user_id = 1")
		h.must("INSERT INTO audit_heads (" + headColumns + ") SELECT " + headColumns + " FROM kept")
		err := h.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			return h.Record(t.Context(), tx, audit.Entry{UserID: 1, Action: "thing.do"})
		})
		if err == nil || sqldb.Is(err, sqldb.ErrConflict) || !strings.Contains(err.Error(), "the head was set back") {
			t.Error(err)
		}
		if p := h.problem(audit.Verification{}); p.UserID != 1 || p.Seq != 2 {
			t.Error(p)
		}
	})
}
