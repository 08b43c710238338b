package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// running starts Run and gives a function that stops it.
func (r *rig) running() (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	return func() {
		r.t.Helper()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.t.Errorf("run: %v", err)
			}
		case <-time.After(2 * time.Minute):
			r.t.Fatal("run does not stop")
		}
	}
}

// awaitSerial waits until the pair with this serial is reported as installed.
func (r *rig) awaitSerial(serial string) {
	r.t.Helper()
	for {
		seen := len(r.server.Notified())
		for _, e := range r.events("install_result") {
			if e["serial"] == serial && e["status"] == "ok" {
				if got := r.serial(); got != serial {
					r.t.Fatalf("serial %s is installed, want %s", got, serial)
				}
				return
			}
		}
		r.server.AwaitNotified(r.t, seen+1)
	}
}

func TestRunFollowsTheStream(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	stop := r.running()
	defer stop()
	r.server.Await(t, "/updates", 1)
	first := r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.awaitSerial(first)
	r.awaitSerial(r.server.Issue(5, "a.test"))
	r.server.Revoke() // the next request needs fresh tokens
	r.awaitSerial(r.server.Issue(5, "a.test"))
	r.server.Signal("a.type.from.the.future", map[string]any{"x": 1})
	polls := r.server.Count("/updates")
	r.server.Unassign(5)
	r.server.Await(t, "/updates", polls+1)
	if n := r.reloads(); n != 3 {
		t.Errorf("%d reloads", n)
	}
}

func TestRunOutlivesAnAbsentServer(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	serial := r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.server.Fail("self", 3, wiretest.Hangup)
	r.server.Fail("self", 2, wiretest.Status(503, 5017, 400, ""))
	r.server.Fail("self", 1, wiretest.Status(429, 5013, 0, ""))
	r.server.Revoke()
	r.server.Fail("/auth/refresh", 3, wiretest.Status(500, 5017, 0, ""))
	stop := r.running()
	defer stop()
	r.awaitSerial(serial)
	longest := time.Duration(0)
	for _, d := range r.clock.Slept() {
		longest = max(longest, d)
	}
	if longest != 400*time.Second {
		t.Errorf("longest wait %v, want the 400 s the server asked for", longest)
	}
}

// The cursor is stored after its batch was applied: a batch that was cut short
// comes again.
func TestCursorMovesOnlyAfterTheBatch(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.clock.OnSleep = func(time.Duration) {
		if c := r.status().Cursor; strings.HasSuffix(c, "-1") {
			t.Errorf("cursor %s was stored before the batch was applied", c)
		}
	}
	stop := r.running()
	r.server.Await(t, "/updates", 1)
	r.server.Fail("/install-config", 1, wiretest.Status(500, 5017, 0, ""))
	r.configure(`{"id":"x","type":"exec","cmd":"echo reloaded >> @/reload.log"}`)
	r.server.Await(t, "/install-config", 3)
	r.server.Await(t, "/updates", 3)
	stop()
	if c := r.status().Cursor; !strings.HasSuffix(c, "-1") || r.reloads() != 1 {
		t.Errorf("cursor %s, %d reloads", c, r.reloads())
	}
}

func TestResync(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.mustOnce()
	serial := r.server.Issue(5, "a.test")
	r.server.Signal("cert.updated", map[string]any{"cert_id": 5})
	r.server.Trim()
	r.restart()
	stop := r.running()
	r.awaitSerial(serial)
	last := r.server.Issue(5, "a.test")
	r.awaitSerial(last)
	stop()
	if !strings.Contains(r.log.String(), "dropped our place") {
		t.Error("the resync was not logged")
	}
	// Once goes through the same door.
	r.server.Issue(5, "a.test")
	r.server.Trim()
	r.mustOnce()
}

// What failed is tried again by itself, later and later.
func TestRunRetriesWhatFailed(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.NeverHold = true
	serial := r.server.Issue(5, "a.test")
	r.configure(copyPair, `{"id":"reload","type":"exec","depends_on":["pair"],"cmd":"echo reloaded >> @/reload.log; [ $(wc -l < @/reload.log) -ge 5 ]"}`)
	stop := r.running()
	defer stop()
	r.awaitSerial(serial)
	if n := r.reloads(); n != 5 { // two for each of two failures, then one that works
		t.Errorf("%d reloads", n)
	}
}
