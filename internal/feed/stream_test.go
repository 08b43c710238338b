package feed

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Writers of two nodes append to the same two devices while readers of both
// nodes follow the streams. A reader that ever got a cursor must see every
// number after it, once, in order: an entry committed behind a cursor that was
// handed out would be missing.
func TestConcurrentWritersAndReaders(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const devices, writers, each = 2, 6, 25
		addDevices(t, db, devices)
		c := newClock()
		nodes := []*Service{newService(t, db, c), newService(t, db, c)}
		if db.Dialect() == sqldb.SQLite {
			nodes[1] = nodes[0] // one process serves a data folder
		}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
						for id := range int64(devices) {
							if err := nodes[w%2].Append(t.Context(), tx, id+1, signal(w*each+i)); err != nil {
								return err
							}
						}
						if i%5 == 4 { // rolled back: must leave no trace
							return errRollBack
						}
						return nil
					})
					if err != nil && !errors.Is(err, errRollBack) {
						t.Error(err)
						return
					}
					c.ms.Add(int64(i%3 - 1)) // a clock that also jumps back
				}
			})
		}
		const want = writers * each * 4 / 5
		seen := make([][]Entry, 4)
		for r := range seen {
			wg.Go(func() {
				after := Cursor{}
				for len(seen[r]) < want {
					entries, err := nodes[r%2].Wait(t.Context(), int64(r/2+1), after, 7, 20*time.Second)
					if err != nil || len(entries) == 0 {
						t.Errorf("reader %d stopped at %d entries: %v", r, len(seen[r]), err)
						return
					}
					seen[r] = append(seen[r], entries...)
					after = entries[len(entries)-1].ID
				}
			})
		}
		wg.Wait()
		for r, entries := range seen {
			checkStream(t, entries, want)
			unique := map[int]bool{}
			for _, e := range entries {
				unique[number(t, e)] = true
			}
			if len(unique) != want {
				t.Errorf("reader %d saw %d of %d signals", r, len(unique), want)
			}
		}
	})
}

var errRollBack = errors.New("roll back")

// checkStream requires n entries whose ids count up and whose times grow.
func checkStream(t testing.TB, entries []Entry, n int) {
	t.Helper()
	if len(entries) != n {
		t.Errorf("%d entries, want %d", len(entries), n)
	}
	for i, e := range entries {
		if e.ID.Seq != entries[0].ID.Seq+int64(i) || e.TSMS != e.ID.MS {
			t.Fatalf("entry %d has id %s and ts_ms %d", i, e.ID, e.TSMS)
		}
		if i > 0 && e.TSMS <= entries[i-1].TSMS {
			t.Fatalf("time does not grow: %d after %d", e.TSMS, entries[i-1].TSMS)
		}
	}
}

func TestTimeIsTrueAndNeverFalls(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		c := newClock()
		s := newService(t, db, c)
		start := c.ms.Load()
		for _, step := range []int64{0, 0, 1000, -3_600_000, 0, 3_600_000, 3_600_000} {
			c.ms.Add(step)
			appendOne(t, s, 1, signal(0))
		}
		entries, err := s.Read(t.Context(), 1, Cursor{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		checkStream(t, entries, 7)
		for i, want := range []int64{0, 1, 1000, 1001, 1002, 1003, 3_601_000} {
			if got := entries[i].TSMS - start; got != want {
				t.Errorf("entry %d: ts_ms %d ms after the start, want %d", i, got, want)
			}
		}
	})
}

func TestTrimming(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 2)
		s := newService(t, db, newClock())
		appendMany(t, s, 1, Retained+3)
		appendOne(t, s, 1, signal(0))
		appendOne(t, s, 2, signal(0))
		b, err := readBounds(t.Context(), db.Reader(), 1)
		if err != nil || b.trimmed.Seq != b.base+4 || b.head.Seq != b.base+Retained+4 {
			t.Fatalf("bounds %v: %v", b, err)
		}
		var count, oldest int64
		err = db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*), MIN(seq) FROM feed_entries WHERE device_id = $1", 1).Scan(&count, &oldest)
		if err != nil || count != Retained || oldest != b.base+5 {
			t.Fatalf("%d retained from %d on: %v", count, oldest, err)
		}
		if _, err := s.Read(t.Context(), 1, b.trimmed, 1); err != nil {
			t.Errorf("nothing after the trimmed entry is lost, yet: %v", err)
		}
		if _, err := s.Read(t.Context(), 1, Cursor{b.trimmed.MS - 1, b.trimmed.Seq - 1}, 1); !fault.Is(err, fault.CodeCursorExpired) {
			t.Errorf("a trimmed cursor: %v", err)
		}
	})
}

func TestLargeEntriesEndABatchEarly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		large := Signal{Type: "config.updated", Ref: map[string]string{"x": strings.Repeat("x", maxRef-100)}}
		for range 5 {
			appendOne(t, s, 1, large)
		}
		after, total := Cursor{}, 0
		for total < 5 {
			entries, err := s.Read(t.Context(), 1, after, 100)
			if err != nil || len(entries) == 0 || len(entries) > 3 {
				t.Fatalf("%d entries: %v", len(entries), err)
			}
			total += len(entries)
			after = entries[len(entries)-1].ID
		}
		large.Ref = map[string]string{"x": strings.Repeat("x", maxRef)}
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Append(t.Context(), tx, 1, large) })
		if err == nil {
			t.Error("a ref above the limit was accepted")
		}
	})
}

func TestDeviceGone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		appendOne(t, s, 1, signal(0))
		if _, err := db.Writer().ExecContext(t.Context(), "DELETE FROM devices WHERE id = $1", 1); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"feed_heads", "feed_entries"} {
			var n int
			if err := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil || n != 0 {
				t.Errorf("%s: %d rows left: %v", table, n, err)
			}
		}
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Append(t.Context(), tx, 1, signal(1)) })
		if !sqldb.Is(err, sqldb.ErrForeignKey) {
			t.Errorf("append for a device that is gone: %v", err)
		}
	})
}

// The queries of a poll and of an append must be index seeks.
func TestPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		for _, query := range []struct {
			text string
			args []any
		}{
			{entriesFrom, []any{1, 5, 20}},
			{readHead, []any{1}},
			{lastToTrim, []any{1, 5, 0}},
			{trimEntries, []any{1, 5, 9}},
		} {
			plan := explain(t, db, query.text, query.args...)
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Sort") {
				t.Errorf("%s\n%s", query.text, plan)
			}
		}
	})
}

// explain gives the plan of a query; PostgreSQL is told not to scan small
// tables, which it would do here although never at a million rows.
func explain(t testing.TB, db *sqldb.DB, query string, args ...any) string {
	t.Helper()
	var plan strings.Builder
	err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		prefix := "EXPLAIN QUERY PLAN "
		if db.Dialect() == sqldb.Postgres {
			prefix = "EXPLAIN "
			if _, err := tx.ExecContext(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(t.Context(), prefix+query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				return err
			}
			fmt.Fprintln(&plan, *values[len(values)-1].(*any))
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
