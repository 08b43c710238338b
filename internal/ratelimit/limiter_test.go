package ratelimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// clock is moved by the test alone.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_700_000_000_000)
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func TestWindow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newClock()
		l := ratelimit.NewLimiter(db, c.now)
		take := func() error { return l.Take(t.Context(), "door", 3, time.Minute) }
		for i := range 3 {
			if err := take(); err != nil {
				t.Fatalf("hit %d: %v", i, err)
			}
			c.advance(10 * time.Second)
		}
		err := take()
		if !fault.Is(err, fault.CodeRateLimited) || fault.As(err).RetryAfter != 30*time.Second {
			t.Fatalf("fourth hit: %v after %v, want 5013 after 30s", err, fault.As(err).RetryAfter)
		}
		if err := l.Take(t.Context(), "other", 3, time.Minute); err != nil {
			t.Errorf("another bucket: %v", err)
		}
		c.advance(30 * time.Second)
		if err := l.Check(t.Context(), "door", 3); err != nil {
			t.Errorf("check after the window: %v", err)
		}
		for i := range 3 {
			if err := take(); err != nil {
				t.Fatalf("next window, hit %d: %v", i, err)
			}
		}
		if err := l.Check(t.Context(), "door", 3); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("check of a full bucket: %v", err)
		}
		if err := l.Reset(t.Context(), "door"); err != nil {
			t.Fatal(err)
		}
		if err := take(); err != nil {
			t.Errorf("after the reset: %v", err)
		}
	})
}

func TestParallelTakesNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const limit, callers = 10, 40
		l := ratelimit.NewLimiter(db, newClock().now)
		var passed, refused atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				switch err := l.Take(t.Context(), "door", limit, time.Minute); {
				case err == nil:
					passed.Add(1)
				case fault.Is(err, fault.CodeRateLimited):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if passed.Load() != limit || refused.Load() != callers-limit {
			t.Errorf("%d passed, %d refused; want %d, %d", passed.Load(), refused.Load(), limit, callers-limit)
		}
	})
}

func TestSweepKeepsOpenWindows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newClock()
		l := ratelimit.NewLimiter(db, c.now)
		for bucket, window := range map[string]time.Duration{"short": time.Minute, "long": time.Hour} {
			if err := l.Take(t.Context(), bucket, 1, window); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(2 * time.Minute)
		if err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db); n != 1 {
			t.Errorf("%d rows after the sweep, want 1", n)
		}
		if err := l.Check(t.Context(), "long", 1); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("the open window was forgotten: %v", err)
		}
	})
}

// A clock that was a year ahead leaves windows behind that would not end in a
// year; the next sweep ends them.
func TestSweepEndsWindowsOfAWrongClock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newClock()
		l := ratelimit.NewLimiter(db, c.now)
		const year = 365 * 24 * time.Hour
		c.advance(year)
		if err := l.Take(t.Context(), "door", 1, time.Hour); err != nil {
			t.Fatal(err)
		}
		c.advance(-year)
		if err := l.Take(t.Context(), "door", 1, time.Hour); !fault.Is(err, fault.CodeRateLimited) {
			t.Fatalf("before the sweep: %v", err)
		}
		if err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Take(t.Context(), "door", 1, time.Hour); err != nil {
			t.Errorf("after the sweep: %v", err)
		}
	})
}

func count(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.Reader().QueryRowContext(context.Background(), "SELECT COUNT(*) FROM rate_limits").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAddressKey(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::1": "2001:db8:1:2::/64",
		"fe80::1%eth0":         "fe80::/64",
		"":                     "unknown",
		"@":                    "unknown",
		"192.0.2.1:443":        "unknown",
		"<script>alert(1)</>":  "unknown",
	} {
		if got := ratelimit.AddressKey(address); got != want {
			t.Errorf("AddressKey(%q) = %q, want %q", address, got, want)
		}
	}
}
