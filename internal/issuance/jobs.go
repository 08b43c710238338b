package issuance

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	queue = "issuance"
	// places is how many attempts one process works on at a time. They mostly
	// wait for authorities.
	places = 64

	sweepEvery = 5 * time.Second
	// overdueAfter is how late an attempt may be before another job is put in:
	// a net under the job engine, which gives a job up after many failures.
	overdueAfter = 15 * time.Second
	sweepBatch   = 200

	pruneEvery = time.Hour
	keepOrders = 7 * 24 * time.Hour
)

// runArgs name the job that runs one attempt.
type runArgs struct {
	IssuanceID int64 `json:"issuance_id"`
}

// Kind implements jobs.Args.
func (runArgs) Kind() string { return "issuance.run" }

type sweepArgs struct{}

// Kind implements jobs.Args.
func (sweepArgs) Kind() string { return "issuance.sweep" }

type pruneArgs struct{}

// Kind implements jobs.Args.
func (pruneArgs) Kind() string { return "issuance.prune" }

// Register adds the jobs of the area.
func (s *Service) Register(r *jobs.Registry) {
	s.turns = r.QueueByTurns(queue, places)
	jobs.Handle(r, jobs.Limits{Timeout: runTime, Retry: retryRun}, func(ctx context.Context, j *jobs.Job[runArgs]) error {
		return s.run(ctx, j.Args.IssuanceID)
	})
	jobs.Handle(r, jobs.Limits{Retry: retryRun}, func(ctx context.Context, _ *jobs.Job[sweepArgs]) error { return s.sweep(ctx) })
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[pruneArgs]) error { return s.prune(ctx) })
	r.Periodic("issuance.sweep", sweepEvery, sweepArgs{}, jobs.Options{Unique: true})
	r.Periodic("issuance.prune", pruneEvery, pruneArgs{}, jobs.Options{Unique: true})
}

// retryRun is for a database that does not answer; what authorities do is
// never an error of the job.
func retryRun(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt-1, 9), 30*time.Second)
}

// sweep starts renewals that are due and sees that nothing is stuck.
func (s *Service) sweep(ctx context.Context) error {
	stray, steady := s.clock.look(s.Now())
	if stray {
		if err := s.replan(ctx); err != nil {
			return err
		}
	}
	ids, err := New(s.DB.Reader()).overdue(ctx, overdueParams{Before: s.Now().Add(-overdueAfter).UnixMilli(), Max: sweepBatch})
	if err != nil {
		return fmt.Errorf("find overdue issuances: %w", err)
	}
	for _, id := range ids {
		err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error { return s.enqueue(ctx, tx, id) })
		if err != nil {
			return fmt.Errorf("enqueue issuance %d again: %w", id, err)
		}
	}
	if !steady {
		return nil
	}
	if err := s.renew(ctx); err != nil {
		return err
	}
	return s.reissue(ctx)
}

// prune forgets orders that no longer count.
func (s *Service) prune(ctx context.Context) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		_, err := New(tx).pruneOrders(ctx, s.Now().Add(-keepOrders).UnixMilli())
		return err
	})
	if err != nil {
		return fmt.Errorf("prune orders: %w", err)
	}
	return nil
}
