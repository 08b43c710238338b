// Package clock is the agent's only source of time, so that tests decide how
// long a wait takes.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and waits.
type Clock interface {
	// Now gives the current time.
	Now() time.Time
	// Sleep waits for d, or until ctx ends and then gives its error.
	Sleep(ctx context.Context, d time.Duration) error
}

// System is the real clock.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (System) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Backoff grows from First by doubling up to Max.
type Backoff struct {
	First, Max time.Duration
	next       time.Duration
}

// Next gives the next wait: the grown one, or least if that is longer.
func (b *Backoff) Next(least time.Duration) time.Duration {
	if b.next == 0 {
		b.next = b.First
	}
	wait := max(b.next, least)
	b.next = min(b.next*2, b.Max)
	return wait
}

// Reset starts again at First.
func (b *Backoff) Reset() { b.next = 0 }
