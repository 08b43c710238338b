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

func door(key string, limit int, window time.Duration) ratelimit.Hit {
	return ratelimit.Hit{Rule: ratelimit.DeviceStartsFromAddress, Key: key, Max: limit, Window: window}
}

// take spends a hit for good.
func take(t *testing.T, l *ratelimit.Limiter, key string, limit int, window time.Duration) error {
	t.Helper()
	spent, err := l.Spend(t.Context(), nil, door(key, limit, window))
	if err == nil {
		spent.Settle()
	}
	return err
}

func TestWindow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newClock()
		l := ratelimit.NewLimiter(db, c.now)
		hit := func() error { return take(t, l, "door", 3, time.Minute) }
		for i := range 3 {
			if err := hit(); err != nil {
				t.Fatalf("hit %d: %v", i, err)
			}
			c.advance(10 * time.Second)
		}
		err := hit()
		if !fault.Is(err, fault.CodeRateLimited) || fault.As(err).RetryAfter != 30*time.Second {
			t.Fatalf("fourth hit: %v after %v, want 5013 after 30s", err, fault.As(err).RetryAfter)
		}
		if err := take(t, l, "other", 3, time.Minute); err != nil {
			t.Errorf("another bucket: %v", err)
		}
		c.advance(30 * time.Second)
		if err := l.Peek(t.Context(), door("door", 3, time.Minute)); err != nil {
			t.Errorf("check after the window: %v", err)
		}
		for i := range 3 {
			if err := hit(); err != nil {
				t.Fatalf("next window, hit %d: %v", i, err)
			}
		}
		if err := l.Peek(t.Context(), door("door", 3, time.Minute)); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("check of a full bucket: %v", err)
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
				switch err := take(t, l, "door", limit, time.Minute); {
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
			if err := take(t, l, bucket, 1, window); err != nil {
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
		if err := l.Peek(t.Context(), door("long", 1, time.Hour)); !fault.Is(err, fault.CodeRateLimited) {
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
		if err := take(t, l, "door", 1, time.Hour); err != nil {
			t.Fatal(err)
		}
		c.advance(-year)
		if err := take(t, l, "door", 1, time.Hour); !fault.Is(err, fault.CodeRateLimited) {
			t.Fatalf("before the sweep: %v", err)
		}
		if err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := take(t, l, "door", 1, time.Hour); err != nil {
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

// TestRightTriesDoNotUseUpTheLimit: more right tries at once than the limit
// allows all get in, and none is counted in the end.
func TestRightTriesDoNotUseUpTheLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		l := ratelimit.NewLimiter(db, newClock().now)
		hits := []ratelimit.Hit{door("b", 3, time.Minute), door("a", 5, time.Minute)}
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				spent, err := l.Spend(t.Context(), nil, hits...)
				if err != nil {
					t.Error(err)
					return
				}
				defer spent.Settle()
				if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return spent.GiveBack(t.Context(), tx) }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := l.Peek(t.Context(), door("b", 1, time.Minute), door("a", 1, time.Minute)); err != nil {
			t.Errorf("hits are left: %v", err)
		}
	})
}

// TestGivingBackLeavesANewWindowAlone: a try that was spent in a window that has
// ended does not pay for one of the next.
func TestGivingBackLeavesANewWindowAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newClock()
		l := ratelimit.NewLimiter(db, c.now)
		late, err := l.Spend(t.Context(), nil, door("door", 1, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		late.Settle()
		c.advance(time.Minute)
		if err := take(t, l, "door", 1, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return late.GiveBack(t.Context(), tx) }); err != nil {
			t.Fatal(err)
		}
		if err := take(t, l, "door", 1, time.Minute); !fault.Is(err, fault.CodeRateLimited) {
			t.Errorf("a second in the new window: %v", err)
		}
	})
}

// TestSpendIsAllOrNothing: a refusal by one limit counts on none, and what was to
// be written along is not.
func TestSpendIsAllOrNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		l := ratelimit.NewLimiter(db, newClock().now)
		if err := take(t, l, "full", 1, time.Minute); err != nil {
			t.Fatal(err)
		}
		called := false
		_, err := l.Spend(t.Context(), func(*sqldb.Tx) error { called = true; return nil }, door("free", 1, time.Minute), door("full", 1, time.Minute))
		if !fault.Is(err, fault.CodeRateLimited) || called {
			t.Errorf("%v, called %v", err, called)
		}
		if err := l.Peek(t.Context(), door("free", 1, time.Minute)); err != nil {
			t.Errorf("the free one was counted: %v", err)
		}
	})
}

func TestEveryRuleHasAName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range ratelimit.Rules() {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("rule %d is called %q", r, r)
		}
		seen[r.String()] = true
	}
}
