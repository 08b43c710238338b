package feed

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// A cursor that this stream never handed out tells its agent to start over. The
// agent keeps its cursor and what it installed over everything: a deleted and
// new registration, another server, a copied disk. Every foreign id is tried
// beside entries that are kept, trimmed, and of the same millisecond.
func TestForeignCursors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 2)
		c := newClock()
		s := newService(t, db, c)
		m := newMux(s)
		former := appendBoth(t, s, 3) // of the former row of device 1, and of device 2
		foreignIDs := []string{
			"1-0", "1-1", "1-9999", "1763012345678-0", "9223372036854775807-1", "0-1", // another server's
			"01JF3Z8Q", "-1-5", "-1--1", "5", "' OR 1=1--", strings.Repeat("9", 60), // no ids at all
		}
		check := func(state string) {
			t.Helper()
			own, err := s.Read(t.Context(), 1, Cursor{}, 2)
			if err != nil {
				t.Fatal(err)
			}
			ids := append([]string{}, foreignIDs...)
			for _, cursor := range former {
				ids = append(ids, cursor.String())
			}
			for _, e := range own { // near its own entries
				for _, near := range []Cursor{{e.ID.MS, e.ID.Seq + 5}, {e.ID.MS, e.ID.Seq - 1_000_000}, {e.ID.MS - 100_000, e.ID.Seq}, {e.ID.MS + 100_000, e.ID.Seq}} {
					ids = append(ids, near.String())
				}
			}
			for _, id := range ids {
				w := poll(t, m, "?cursor="+url.QueryEscape(id))
				e := decode[errorAnswer](t, w).Error
				if w.Code != http.StatusConflict || e.Code != 40901 || e.Key != "CURSOR_EXPIRED" || e.Params["reason"] != "cursor_unknown" {
					t.Errorf("%s: cursor %s: %d %s", state, id, w.Code, w.Body)
				}
				earliest := "0-0"
				if len(own) > 0 {
					earliest = own[0].ID.String()
				}
				if e.Params["earliest_retained_id"] != earliest || e.Params["action"] != "full_resync" || e.Params["reset_cursor"] != true {
					t.Errorf("%s: cursor %s: params %v", state, id, e.Params)
				}
				if header := poll(t, m, "", "If-None-Match", `"`+id+`"`); header.Code != http.StatusConflict {
					t.Errorf("%s: If-None-Match %s: %d", state, id, header.Code)
				}
			}
			if w := poll(t, m, "?cursor=x&wait=30"); w.Code != http.StatusConflict { // not after 30 s
				t.Errorf("%s: a long poll: %d", state, w.Code)
			}
			for _, e := range own { // its own are good
				if w := poll(t, m, "?cursor="+e.ID.String()); w.Code >= http.StatusBadRequest {
					t.Errorf("%s: own cursor %s: %d %s", state, e.ID, w.Code, w.Body)
				}
			}
			if w := poll(t, m, "?cursor=0-0"); w.Code >= http.StatusBadRequest {
				t.Errorf("%s: 0-0: %d", state, w.Code)
			}
		}

		anew(t, db)
		s = newService(t, db, c) // ids of rows are never used twice while a process lives
		m = newMux(s)
		check("a fresh stream")
		again := appendBoth(t, s, 3) // in the same milliseconds as before
		former = append(slices.Clip(former), again[1], again[3], again[5])
		check("new entries in the milliseconds of the former ones")
		first, err := s.Read(t.Context(), 1, Cursor{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		c.ms.Add(1_000_000)
		appendMany(t, s, 1, Retained+2)
		check("after trimming")
		w := poll(t, m, "?cursor="+first[0].ID.String())
		if e := decode[errorAnswer](t, w).Error; w.Code != http.StatusConflict || e.Params["reason"] != "cursor_trimmed" {
			t.Errorf("its own trimmed cursor: %d %s", w.Code, w.Body)
		}
	})
}

// appendBoth appends n signals to devices 1 and 2, in one transaction each, and
// gives the ids by turns.
func appendBoth(t *testing.T, s *Service, n int) []Cursor {
	t.Helper()
	for i := range n {
		err := s.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			for device := range int64(2) {
				if err := s.Append(t.Context(), tx, device+1, signal(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var ids []Cursor
	one, err := s.Read(t.Context(), 1, Cursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Read(t.Context(), 2, Cursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		ids = append(ids, one[len(one)-n+i].ID, two[len(two)-n+i].ID)
	}
	return ids
}

// anew takes device 1 away and registers it again: the hardest case, in which
// even the row's number is the same.
func anew(t *testing.T, db *sqldb.DB) {
	t.Helper()
	insert := `INSERT INTO devices (id, user_id, public_id, public_key, status, session_no, name, platform, model, app_version,
		agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
		VALUES (1, 1, 'd1', $1, 'ACTIVE', 1, '', '', '', '', '', '', '', '', 0, 0, 0)`
	if _, err := db.Writer().ExecContext(t.Context(), "DELETE FROM devices WHERE id = $1", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Writer().ExecContext(t.Context(), insert, make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
}

// A backlog is fetched at once: every part but the last asks for the next one
// after a second, whatever ends it.
func TestBacklogDrainsQuickly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		addDevices(t, db, 1)
		s := newService(t, db, newClock())
		m := newMux(s)
		appendMany(t, s, 1, 25)
		large := Signal{Type: "config.updated", Ref: map[string]string{"x": strings.Repeat("x", maxRef-100)}}
		for range 3 {
			appendOne(t, s, 1, large)
		}
		var intervals []string
		cursor, seen := "", 0
		for seen < 28 {
			w := poll(t, m, "?limit=10&cursor="+cursor)
			page := decode[pageAnswer](t, w).Data
			if w.Code != http.StatusOK || len(page.Signals) == 0 {
				t.Fatalf("after %d signals: %d", seen, w.Code)
			}
			cursor, seen = page.Cursor, seen+len(page.Signals)
			intervals = append(intervals, w.Header().Get("X-Poll-Interval"))
		}
		last := len(intervals) - 1
		for i, got := range intervals {
			if want := map[bool]string{true: "10", false: "1"}[i == last]; got != want {
				t.Errorf("part %d of %d: X-Poll-Interval %s, want %s", i, len(intervals), got, want)
			}
		}
	})
}
