package issuance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// leap is by how much the clock moves between two sweeps when somebody set
	// it, or the machine slept.
	leap = 36 * time.Hour
	// settle is how long renewals wait after a leap: a clock that went wrong is
	// often set right soon, and everything would be renewed for nothing.
	settle = 10 * time.Minute
	// farthest is longer than anything is put off.
	farthest = 48 * time.Hour
)

// clock notices that the time does not pass as it should.
type clock struct {
	settle time.Duration

	mu    sync.Mutex
	last  time.Time // of the sweep before
	until time.Time // renewals wait
}

// look compares now with the sweep before. stray: something may be planned in
// a future that will not come, since the time went back, or may have before this
// process began. steady: renewals may begin.
func (c *clock) look(now time.Time) (stray, steady bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := now.Sub(c.last)
	stray = c.last.IsZero() || passed < 0
	if !c.last.IsZero() && passed > leap {
		c.until = now.Add(c.settle)
	}
	if stray {
		c.until = time.Time{}
	}
	c.last = now
	return stray, !now.Before(c.until)
}

// replan brings back what was planned by a clock that was wrong: otherwise
// certificates would expire and attempts wait until that time comes.
func (s *Service) replan(ctx context.Context) error {
	now := s.Now()
	limit := now.Add(farthest).UnixMilli()
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := New(tx).hasten(ctx, hastenParams{Now: now.UnixMilli(), Latest: limit}); err != nil {
			return fmt.Errorf("hasten issuances: %w", err)
		}
		return s.Certs.ReplanRenewals(ctx, tx, limit)
	})
	if err != nil {
		return fmt.Errorf("bring back what was planned too far ahead: %w", err)
	}
	return nil
}
