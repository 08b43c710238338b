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
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, j *jobs.Job[accountArgs]) error {
		return s.handleRequest(ctx, j.Args.RequestID)
	})
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[SweepArgs]) error { return s.Sweep(ctx) })
	r.Periodic("identity.sweep", time.Hour, SweepArgs{}, jobs.Options{})
}

// unconfirmedAge is how long a registration that nobody confirmed is kept.
const unconfirmedAge = 7 * 24 * time.Hour

// unapprovedAge is how long a user waits for an administrator.
const unapprovedAge = 30 * 24 * time.Hour

// Sweep deletes the sessions and codes that have expired, which admit nobody
// before that either, and the users who were never confirmed or never let
// in.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.now()
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if steady, err := jobs.Steady(ctx, tx, SweepArgs{}.Kind(), now); !steady || err != nil {
			return err
		}
		if _, err := New(tx).deleteExpiredSessions(ctx, now.UnixMilli()); err != nil {
			return fmt.Errorf("sweep sessions: %w", err)
		}
		if _, err := New(tx).deleteExpiredCodes(ctx, now.UnixMilli()); err != nil {
			return fmt.Errorf("sweep codes: %w", err)
		}
		if _, err := New(tx).deleteUnconfirmedUsers(ctx, now.Add(-unconfirmedAge).UnixMilli()); err != nil {
			return fmt.Errorf("sweep users: %w", err)
		}
		if _, err := New(tx).deleteUnapprovedUsers(ctx, now.Add(-unapprovedAge).UnixMilli()); err != nil {
			return fmt.Errorf("sweep users: %w", err)
		}
		return nil
	})
}
