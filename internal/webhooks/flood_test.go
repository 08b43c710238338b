package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// One user's 220 webhooks lead to a receiver that hangs until the test is over.
// Another user's deliveries arrive while it does.
func TestReceiverThatHangs(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	var hanging, arrived atomic.Int64
	release := make(chan struct{})
	tarpit := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hanging.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer tarpit.Close()
	defer close(release)
	prompt := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer prompt.Close()

	f := newFixture(t, db, func(d *Deps) { d.Now, d.Outbound.Timeout = time.Now, time.Hour })
	registry := jobs.NewRegistry()
	f.Register(registry)
	engine, err := jobs.New(t.Context(), db, registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f.UseJobs(engine)
	if err := engine.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = engine.Stop(ended) // says that it had to cancel
	}()
	for range 220 {
		f.hook(tarpit.URL, map[string]any{"type": "all"})
	}
	f.issued(1, 1)
	arrives(t, "the receiver hangs", func() bool { return hanging.Load() == places/4 })
	f.user = newUser(t, db, "victim@example.com")
	f.hook(prompt.URL, map[string]any{"type": "all"})
	for i := range int64(5) {
		f.issued(100+i, 100+i)
		arrives(t, fmt.Sprintf("delivery %d", i), func() bool { return arrived.Load() == i+1 })
	}
	if got := hanging.Load(); got != places/4 {
		t.Errorf("%d requests hang at one receiver, want %d", got, places/4)
	}
}

func arrives(t *testing.T, what string, check func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !check() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("nothing after a minute: %s", what)
		}
	}
}

// A user tests and redelivers only so often.
func TestTestsAreLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db, func(d *Deps) { d.Limiter = ratelimit.NewLimiter(d.DB, d.Now) })
		hook := f.hook("http://127.0.0.1:1/", map[string]any{"type": "all"})
		d, _, err := f.Test(t.Context(), f.user, hook.ID)
		if err != nil {
			t.Fatal(err)
		}
		for range maxTries - 1 {
			if _, err := f.Redeliver(t.Context(), f.user, hook.ID, d.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Redeliver(t.Context(), f.user, hook.ID, d.ID); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("one redelivery too many: %v", err)
		}
		if _, fresh, err := f.Test(t.Context(), f.user, hook.ID); err != nil || fresh {
			t.Errorf("the test that is pending: %v %v", fresh, err)
		}
		other := f.hook("http://127.0.0.1:1/other", map[string]any{"type": "all"})
		if _, _, err := f.Test(t.Context(), f.user, other.ID); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("one test too many: %v", err)
		}
	})
}
