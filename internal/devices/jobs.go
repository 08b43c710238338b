package devices

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

// SweepArgs asks for the deletion of credentials that have expired.
type SweepArgs struct{}

// Kind implements jobs.Args.
func (SweepArgs) Kind() string { return "devices.sweep" }

// Register adds the hourly sweep.
func (s *Service) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[SweepArgs]) error { return s.sweep(ctx) })
	r.Periodic("devices.sweep", time.Hour, SweepArgs{}, jobs.Options{})
}

// sweep keeps logins for an hour more, so that a device that polls late is told
// "expired"; their codes go with them.
func (s *Service) sweep(ctx context.Context) error {
	now := s.Now()
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if steady, err := jobs.Steady(ctx, tx, SweepArgs{}.Kind(), now); !steady || err != nil {
			return err
		}
		if err := New(tx).deleteExpiredRefreshTokens(ctx, now.UnixMilli()); err != nil {
			return err
		}
		return New(tx).deleteExpiredLogins(ctx, now.Add(-time.Hour).UnixMilli())
	})
	if err != nil {
		return fmt.Errorf("sweep device credentials: %w", err)
	}
	return nil
}
