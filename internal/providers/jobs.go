package providers

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

// SweepArgs asks for the deletion of attempts that nobody ended in time.
type SweepArgs struct{}

// Kind implements jobs.Args.
func (SweepArgs) Kind() string { return "providers.sweep" }

// Register adds the area's jobs.
func (s *Service) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[SweepArgs]) error { return s.Sweep(ctx) })
	r.Periodic("providers.sweep", 15*time.Minute, SweepArgs{}, jobs.Options{})
}

// Sweep deletes the attempts that are too late; they are good for nothing before
// that either.
func (s *Service) Sweep(ctx context.Context) error {
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := New(tx).deleteExpiredAttempts(ctx, s.now().UnixMilli()); err != nil {
			return fmt.Errorf("sweep attempts: %w", err)
		}
		return nil
	})
}
