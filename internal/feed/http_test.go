package feed

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestPollOverHTTP(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 2)
		c := newClock()
		s := newService(t, db, c)
		m := newMux(s)

		for range 2 { // from the database, then from memory
			w := poll(t, m, "")
			if w.Code != http.StatusNoContent || w.Header().Get("ETag") != `"0-0"` || w.Body.Len() != 0 {
				t.Fatalf("fresh stream: %d %v %s", w.Code, w.Header(), w.Body)
			}
			if w.Header().Get("X-Poll-Interval") != "10" || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("headers: %v", w.Header())
			}
		}

		for n := range 3 {
			appendOne(t, s, 1, signal(n))
		}
		appendOne(t, s, 2, signal(100))
		w := poll(t, m, "?limit=2")
		page := decode[pageAnswer](t, w).Data
		if w.Code != http.StatusOK || len(page.Signals) != 2 || w.Header().Get("ETag") != `"`+page.Cursor+`"` {
			t.Fatalf("first two: %d %v %s", w.Code, w.Header(), w.Body)
		}
		if string(page.Signals[0].Ref) != `{"n":0}` || page.Signals[0].Type != "test.signal" || page.Signals[0].TSMS != c.ms.Load() {
			t.Fatalf("first: %s", w.Body)
		}
		// More is waiting: a backlog must not take ten seconds for each part.
		if got := w.Header().Get("X-Poll-Interval") + w.Header().Get("Cache-Control"); got != "1no-store" {
			t.Fatalf("headers: %v", w.Header())
		}
		w = poll(t, m, "?cursor=0-0", "If-None-Match", `W/"`+page.Cursor+`"`)
		page = decode[pageAnswer](t, w).Data
		if len(page.Signals) != 1 || string(page.Signals[0].Ref) != `{"n":2}` {
			t.Fatalf("the rest: %s", w.Body)
		}
		if got := w.Header().Get("X-Poll-Interval"); got != "10" {
			t.Fatalf("the last part: X-Poll-Interval %s", got)
		}
		for range 2 {
			w = poll(t, m, "?cursor="+page.Cursor)
			if w.Code != http.StatusNoContent || w.Header().Get("ETag") != `"`+page.Cursor+`"` {
				t.Fatalf("at the end: %d %v", w.Code, w.Header())
			}
		}
		appendOne(t, s, 1, signal(3))
		if w = poll(t, m, "?cursor="+page.Cursor); w.Code != http.StatusOK {
			t.Fatalf("after an append: %d", w.Code)
		}
	})
}

func TestPollRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		m := newMux(newService(t, db, newClock()))
		for _, query := range []string{
			"?limit=0", "?limit=101", "?limit=-1", "?limit=x", "?limit=1.5", "?wait=-1", "?wait=31", "?wait=x",
			"?cursor=" + strings.Repeat("x", 65), "?cursor=%7f", "?cursor=%D9%A7",
		} {
			w := poll(t, m, query)
			name, _, _ := strings.Cut(query[1:], "=")
			if e := decode[errorAnswer](t, w).Error; w.Code != http.StatusBadRequest || e.Code != 5000 || !strings.Contains(e.What, name) {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
		}
		for _, query := range []string{"", "?limit=1", "?limit=100", "?wait=0", "?cursor=0-0", "?unknown=1"} {
			if w := poll(t, m, query); w.Code != http.StatusNoContent {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
		}
	})
}

func TestTrimmedCursorOverHTTP(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		m := newMux(s)
		appendOne(t, s, 1, signal(0))
		first := decode[pageAnswer](t, poll(t, m, "")).Data.Cursor
		appendMany(t, s, 1, Retained)
		// The first entry is trimmed, but nothing after it is.
		if w := poll(t, m, "?cursor="+first); w.Code != http.StatusOK {
			t.Fatalf("nothing lost yet: %d %s", w.Code, w.Body)
		}
		appendMany(t, s, 1, 2)

		w := poll(t, m, "?cursor="+first)
		oldest, err := s.Read(t.Context(), 1, Cursor{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"action": "full_resync", "reset_cursor": true, "signal_type": "state.resync_required",
			"reason": "cursor_trimmed", "earliest_retained_id": oldest[0].ID.String(),
		}
		e := decode[errorAnswer](t, w).Error
		if w.Code != http.StatusConflict || e.Code != 40901 || !reflect.DeepEqual(e.Params, want) {
			t.Fatalf("%d %s, want %v", w.Code, w.Body, want)
		}
		w = poll(t, m, "?limit=100")
		if page := decode[pageAnswer](t, w).Data; w.Code != http.StatusOK || len(page.Signals) != 100 || page.Signals[0].TSMS != oldest[0].TSMS {
			t.Fatalf("start over: %d %.200s", w.Code, w.Body)
		}
	})
}

// appendMany appends n signals in one transaction.
func appendMany(t testing.TB, s *Service, deviceID int64, n int) {
	t.Helper()
	err := s.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		for i := range n {
			if err := s.Append(t.Context(), tx, deviceID, signal(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
