package wiretest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stream is a device's updates (wire.md 6).
type stream struct {
	entries []entry
	last    int64 // sequence of the newest entry
	trimmed int64 // sequence of the newest entry that is gone
}

type entry struct {
	seq    int64
	signal map[string]any
}

func cursorOf(seq int64) string {
	if seq == 0 {
		return "0-0"
	}
	return fmt.Sprintf("1700000000000-%d", seq)
}

// signal appends to the stream of every device.
func (s *Server) signal(kind string, ref map[string]any) {
	for _, d := range s.devices {
		d.last++
		d.entries = append(d.entries, entry{d.last, map[string]any{"type": kind, "ts_ms": time.Now().UnixMilli() + d.last, "ref": ref}})
	}
	s.changed.Broadcast()
}

// Signal appends a signal of any kind to the stream of every device.
func (s *Server) Signal(kind string, ref map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(kind, ref)
}

// Trim drops all retained entries.
func (s *Server) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		d.trimmed, d.entries = d.last, nil
	}
}

func (s *Server) updates(w http.ResponseWriter, r *http.Request, d *device) {
	cursor := r.URL.Query().Get("cursor")
	if h := r.Header.Get("If-None-Match"); h != "" {
		cursor = strings.Trim(h, `"`)
	}
	limit, okLimit := number(r, "limit", 20, 1, 100)
	wait, okWait := number(r, "wait", 0, 0, 30)
	after, okCursor := parseCursor(cursor)
	if !okLimit || !okWait || !okCursor {
		fail(w, http.StatusBadRequest, 5000, "", nil)
		return
	}
	if after > d.last || (after > 0 && after < d.trimmed) {
		fail(w, http.StatusConflict, 40901, "CURSOR_EXPIRED", map[string]any{
			"action": "full_resync", "reset_cursor": true, "signal_type": "state.resync_required",
			"reason": "cursor_trimmed", "earliest_retained_id": cursorOf(d.trimmed + 1),
		})
		return
	}
	s.await(r, d, after, time.Duration(wait)*time.Second)
	signals := []map[string]any{}
	for _, e := range d.entries {
		if e.seq > after && len(signals) < limit {
			signals = append(signals, e.signal)
			after = e.seq
		}
	}
	w.Header().Set("ETag", `"`+cursorOf(after)+`"`)
	w.Header().Set("X-Poll-Interval", "1")
	w.Header().Set("Cache-Control", "no-store")
	if len(signals) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	data(w, http.StatusOK, map[string]any{"cursor": cursorOf(after), "signals": signals})
}

// await holds the request until there is an entry after the cursor.
func (s *Server) await(r *http.Request, d *device, after int64, wait time.Duration) {
	if wait == 0 || s.NeverHold {
		return
	}
	wake := func() { s.mu.Lock(); s.changed.Broadcast(); s.mu.Unlock() }
	deadline := time.Now().Add(wait)
	timer := time.AfterFunc(wait, wake)
	defer timer.Stop()
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-r.Context().Done():
			wake()
		case <-gone:
		}
	}()
	for d.last <= after && !s.closing && r.Context().Err() == nil && time.Now().Before(deadline) {
		s.changed.Wait()
	}
}

func parseCursor(text string) (int64, bool) {
	if text == "" || text == "0-0" {
		return 0, true
	}
	seq, ok := strings.CutPrefix(text, "1700000000000-")
	n, err := strconv.ParseInt(seq, 10, 64)
	return n, ok && err == nil
}

func number(r *http.Request, name string, byDefault, least, most int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return byDefault, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && n <= most
}
