package acme

import (
	"context"
	"fmt"
	"time"
)

// The waits between looks when the CA does not say: short at first, since
// waiting is most of what an order costs.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// Waiter looks at something until it is done. The zero value waits in real
// time and without a limit of its own.
type Waiter struct {
	// Sleep waits, or gives the context's error; nil means real time.
	Sleep func(ctx context.Context, d time.Duration) error
	// First is the first wait where the CA has not said how long, 0 means 20 ms.
	First time.Duration
	// Patience is the longest single wait that is made here; a CA that asks for
	// more gets a *Later. 0 means none is too long.
	Patience time.Duration
}

// Later says that the CA wants to be asked after a time that is not worth
// holding a worker for: the step is to be scheduled anew.
type Later struct{ After time.Duration }

func (l *Later) Error() string {
	return fmt.Sprintf("the CA wants to be asked again after %s", l.After)
}

// Wait waits and calls look, until look says done or gives an error, which is
// returned as it is, or ctx ends. retryAfter is the CA's wish of the answer
// before, and look gives that of its answer: it is kept exactly; 0 stands for
// no wish and lets the waits grow from First to 1 s.
func (w Waiter) Wait(ctx context.Context, retryAfter time.Duration, look func(context.Context) (done bool, retryAfter time.Duration, err error)) error {
	sleep := w.Sleep
	if sleep == nil {
		sleep = realSleep
	}
	unasked := w.First
	if unasked <= 0 {
		unasked = firstWait
	}
	for {
		wait := retryAfter
		if wait <= 0 {
			wait = unasked
			unasked = min(unasked*3/2, maxWait)
		}
		if w.Patience > 0 && wait > w.Patience {
			return &Later{After: wait}
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("wait for the CA: %w", err)
		}
		done, next, err := look(ctx)
		if err != nil || done {
			return err
		}
		retryAfter = next
	}
}

func realSleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
