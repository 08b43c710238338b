package wiretest

import (
	"context"
	"sync"
	"time"
)

// Clock is a clock that never waits: Sleep moves it ahead and returns.
type Clock struct {
	// OnSleep, when set, is called before every Sleep with its length.
	OnSleep func(time.Duration)

	mu    sync.Mutex
	ahead time.Duration
	slept []time.Duration
}

// Now gives the real time plus all that was slept.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// Sleep moves the clock by d at once. A context that ended gives its error.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if c.OnSleep != nil {
		c.OnSleep(d)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	c.slept = append(c.slept, d)
	return nil
}

// Slept gives the lengths of all sleeps so far, in order.
func (c *Clock) Slept() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.slept...)
}
