package feed

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// waiting starts a long poll and returns once it waits for an append.
func waiting(t testing.TB, s *Service, h http.Handler, query string) <-chan *httptest.ResponseRecorder {
	t.Helper()
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- poll(t, h, query) }()
	until(t, "the poll waits", func() bool {
		s.heads.mu.Lock()
		defer s.heads.mu.Unlock()
		h := s.heads.of[1]
		return h != nil && h.known && h.changed != nil
	})
	return done
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(slow); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestLongPollWokenByAppend(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		s.tick = time.Hour // or it might be the look that finds the entry
		done := waiting(t, s, newMux(s), "?wait=30")
		appendOne(t, s, 1, signal(1))
		w := <-done
		if w.Code != http.StatusOK || len(decode[pageAnswer](t, w).Data.Signals) != 1 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

// slow is far above the second between two looks, for busy machines, and far
// below the 30 s of a long poll that nothing wakes.
const slow = 25 * time.Second

// Another node appends: no hint arrives here, the look every second finds it.
func TestLongPollSeesOtherNodes(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, dbtest.PostgresConfig(t))
	addDevices(t, db, 1)
	c := newClock()
	here, there := newService(t, db, c), newService(t, db, c)
	m := newMux(here)
	done := waiting(t, here, m, "?wait=30")
	start := time.Now()
	appendOne(t, there, 1, signal(1))
	w := <-done
	if w.Code != http.StatusOK || time.Since(start) > slow {
		t.Fatalf("%d after %s", w.Code, time.Since(start))
	}
	// A poll without waiting believes its memory for a second at the most.
	cursor := decode[pageAnswer](t, w).Data.Cursor
	appendOne(t, there, 1, signal(2))
	start = time.Now()
	until(t, "the signal of the other node appears", func() bool {
		return poll(t, m, "?cursor="+cursor).Code == http.StatusOK
	})
	if took := time.Since(start); took > slow {
		t.Errorf("appeared after %s", took)
	}
}

// A node that remembers an older head must not call a newer cursor unknown.
func TestCursorOfAnotherNode(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, dbtest.PostgresConfig(t))
	addDevices(t, db, 1)
	c := newClock()
	here, there := newService(t, db, c), newService(t, db, c)
	if w := poll(t, newMux(here), ""); w.Code != http.StatusNoContent {
		t.Fatal(w.Code)
	}
	appendOne(t, there, 1, signal(1))
	cursor := decode[pageAnswer](t, poll(t, newMux(there), "")).Data.Cursor
	if w := poll(t, newMux(here), "?cursor="+cursor); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
}

func TestCloseEndsLongPolls(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		m := newMux(s)
		done := waiting(t, s, m, "?wait=30")
		s.Close()
		s.Close()
		if w := <-done; w.Code != http.StatusNoContent || w.Header().Get("ETag") != `"0-0"` {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		if w := poll(t, m, "?wait=30"); w.Code != http.StatusNoContent {
			t.Fatalf("after Close: %d", w.Code)
		}
		appendOne(t, s, 1, signal(1))
		if w := poll(t, m, "?wait=30"); w.Code != http.StatusOK {
			t.Fatalf("what is there is still served: %d", w.Code)
		}
	})
}

func TestLongPollEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.Wait(ctx, 1, Cursor{}, 20, time.Hour)
			ended <- err
		}()
		until(t, "the poll waits", func() bool {
			s.heads.mu.Lock()
			defer s.heads.mu.Unlock()
			return s.heads.of[1] != nil && s.heads.of[1].known
		})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		until(t, "nobody uses the head", func() bool { s.heads.mu.Lock(); defer s.heads.mu.Unlock(); return s.heads.of[1].users == 0 })
	})
}

func TestLongPollEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	addDevices(t, db, 1)
	s := newService(t, db, newClock())
	if w := poll(t, newMux(s), ""); w.Code != http.StatusNoContent { // from here on memory answers
		t.Fatal(w.Code)
	}
	synctest.Test(t, func(t *testing.T) {
		inside := &Service{db: s.db, now: s.now, tick: s.tick, heads: newHeads(false, "10"), closed: make(chan struct{})}
		inside.heads.observed(inside.heads.use(1), Cursor{}, time.Now())
		start := time.Now()
		entries, err := inside.Wait(t.Context(), 1, Cursor{}, 20, 30*time.Second)
		if err != nil || len(entries) != 0 || time.Since(start) != 30*time.Second {
			t.Fatalf("%v %v after %s", entries, err, time.Since(start))
		}
	})
}

// A commit that succeeds but is not confirmed gives no hint. The head in memory
// must not hide the entry.
func TestUnconfirmedCommitIsSeen(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lose atomic.Bool
			cfg := config(t)
			cfg.CommitFault = lose.Load
			db := dbtest.Open(t, cfg)
			addDevices(t, db, 1)
			s := newService(t, db, newClock())
			m := newMux(s)
			done := waiting(t, s, m, "?wait=30")
			lose.Store(true)
			err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Append(t.Context(), tx, 1, signal(1)) })
			if !errors.Is(err, sqldb.ErrUncertain) {
				t.Fatal(err)
			}
			if w := poll(t, m, ""); w.Code != http.StatusOK {
				t.Errorf("a poll at once: %d", w.Code)
			}
			if w := <-done; w.Code != http.StatusOK {
				t.Errorf("the long poll: %d", w.Code)
			}
		})
	}
}

// After a rolled back append the head is believed again once a later append
// commits, and until then polls are right, if slower.
func TestRolledBackAppend(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		m := newMux(s)
		poll(t, m, "")
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			if err := s.Append(t.Context(), tx, 1, signal(1)); err != nil {
				return err
			}
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			t.Fatal(err)
		}
		if w := poll(t, m, ""); w.Code != http.StatusNoContent {
			t.Fatal(w.Code)
		}
		if s.heads.idle(1, Cursor{}) != nil {
			t.Error("the head is believed although an append is pending")
		}
		appendOne(t, s, 1, signal(2))
		w := poll(t, m, "")
		page := decode[pageAnswer](t, w).Data
		if w.Code != http.StatusOK || len(page.Signals) != 1 || string(page.Signals[0].Ref) != `{"n":2}` {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		at, err := ParseCursor(page.Cursor)
		if err != nil || s.heads.idle(1, at) == nil {
			t.Error("the head is not believed after a commit")
		}
	})
}
