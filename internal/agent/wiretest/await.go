package wiretest

import (
	"strings"
	"time"
)

// Failer is the part of testing.TB that waiting needs.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Await blocks until n requests contain match, or fails the test after 20 s.
func (s *Server) Await(t Failer, match string, n int) {
	t.Helper()
	s.await20(t, match, func() bool {
		count := 0
		for _, r := range s.requests {
			if strings.Contains(r, match) {
				count++
			}
		}
		return count >= n
	})
}

// AwaitNotified blocks until n events were reported, or fails the test after
// 20 s.
func (s *Server) AwaitNotified(t Failer, n int) {
	t.Helper()
	s.await20(t, "events", func() bool { return len(s.notified) >= n })
}

// await20 asks reached, under the lock, whenever something has changed.
func (s *Server) await20(t Failer, what string, reached func() bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		s.mu.Lock()
		late = true
		s.changed.Broadcast()
		s.mu.Unlock()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !reached() {
		if late {
			t.Fatalf("not enough %s within two minutes; requests were %v", what, s.requests)
		}
		s.changed.Wait()
	}
}
