package identity

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

// SweepArgs asks for the deletion of sessions that have expired.
type SweepArgs struct{}

// Kind implements jobs.Args.
func (SweepArgs) Kind() string { return "identity.sweep" }

// Register adds the area's jobs.
func (s *Service) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[SweepArgs]) error { return s.Sweep(ctx) })
	r.Periodic("identity.sweep", time.Hour, SweepArgs{}, jobs.Options{})
}

// Sweep deletes the sessions that have expired; they admit nobody before that
// either.
func (s *Service) Sweep(ctx context.Context) error {
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := New(tx).deleteExpiredSessions(ctx, s.now().UnixMilli()); err != nil {
			return fmt.Errorf("sweep sessions: %w", err)
		}
		return nil
	})
}
