package webhooks

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	queue = "webhooks"
	// places is how many webhooks one process drains at a time. Most of the time
	// is waiting for receivers.
	places = 200

	sweepEvery   = time.Minute
	overdueAfter = 3 * time.Minute // no job of ours is late by so much
	farthest     = 12 * time.Hour  // no attempt is put off by so much
	sweepBatch   = 200

	pruneEvery = time.Hour
	retention  = 30 * 24 * time.Hour
	pruneBatch = 1000
)

// drainArgs name the job that drains one webhook.
type drainArgs struct {
	WebhookID int64 `json:"webhook_id"`
	Token     int64 `json:"token"`
}

// Kind implements jobs.Args.
func (drainArgs) Kind() string { return "webhooks.drain" }

type sweepArgs struct{}

// Kind implements jobs.Args.
func (sweepArgs) Kind() string { return "webhooks.sweep" }

type pruneArgs struct{}

// Kind implements jobs.Args.
func (pruneArgs) Kind() string { return "webhooks.prune" }

// Register adds the jobs of the area.
func (s *Service) Register(r *jobs.Registry) {
	s.turns = r.QueueByTurns(queue, places)
	jobs.Handle(r, jobs.Limits{Timeout: runLimit, Retry: retryJob}, func(ctx context.Context, j *jobs.Job[drainArgs]) error {
		return s.drain(ctx, j.Args)
	})
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[sweepArgs]) error { return s.sweep(ctx) })
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[pruneArgs]) error { return s.prune(ctx) })
	r.Periodic("webhooks.sweep", sweepEvery, sweepArgs{}, jobs.Options{Unique: true})
	r.Periodic("webhooks.prune", pruneEvery, pruneArgs{}, jobs.Options{Unique: true})
}

// retryJob is for a database that does not answer; what receivers do is never
// an error of the job.
func retryJob(attempt int) time.Duration {
	return min(time.Second<<min(attempt-1, 5), 30*time.Second)
}

// sweep plans anew what should have been drained minutes ago: a net under the
// job engine, which gives a job up after many failures.
func (s *Service) sweep(ctx context.Context) error {
	now := s.now()
	late := now.Add(-overdueAfter).UnixMilli()
	ids, err := New(s.db.Reader()).listOverdue(ctx, listOverdueParams{DrainDue: late, LeaseUntil: now.UnixMilli(), Limit: sweepBatch})
	if err != nil {
		return fmt.Errorf("list overdue webhooks: %w", err)
	}
	for _, id := range ids {
		err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
			hook, err := lock(ctx, tx, id)
			if sqldb.Is(err, sqldb.ErrNotFound) {
				return nil
			}
			if err != nil || hook.token == 0 || hook.due >= late || hook.leaseUntil >= now.UnixMilli() {
				return err
			}
			return s.replan(ctx, tx, id, now.UnixMilli())
		})
		if err != nil {
			return err
		}
		s.log.WarnContext(ctx, "webhook was overdue and is planned anew", "webhook_id", id)
	}
	return s.bringBack(ctx, now)
}

// bringBack plans for now what a clock that was ahead has planned for a time
// that is far away, now that it is set right.
func (s *Service) bringBack(ctx context.Context, now time.Time) error {
	latest := now.Add(farthest).UnixMilli()
	ids, err := New(s.db.Reader()).listStray(ctx, listStrayParams{DrainDue: latest, Limit: sweepBatch})
	if err != nil {
		return fmt.Errorf("list webhooks that are planned too far ahead: %w", err)
	}
	for _, id := range ids {
		err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
			hook, err := lock(ctx, tx, id)
			if sqldb.Is(err, sqldb.ErrNotFound) {
				return nil
			}
			if err != nil || hook.token == 0 || hook.due <= latest {
				return err
			}
			if err := New(tx).hasten(ctx, hastenParams{Now: now.UnixMilli(), WebhookID: id, Latest: latest}); err != nil {
				return fmt.Errorf("hasten the deliveries of webhook %d: %w", id, err)
			}
			return s.replan(ctx, tx, id, now.UnixMilli())
		})
		if err != nil {
			return err
		}
		s.log.WarnContext(ctx, "webhook was planned too far ahead and is brought back", "webhook_id", id)
	}
	return nil
}

// prune removes deliveries that finished long ago, a batch per transaction.
func (s *Service) prune(ctx context.Context) error {
	before := s.now().Add(-retention).UnixMilli()
	for {
		var n int64
		err := s.db.InTx(ctx, func(tx *sqldb.Tx) (err error) {
			n, err = New(tx).pruneDeliveries(ctx, pruneDeliveriesParams{FinishedAt: before, Limit: pruneBatch})
			return err
		})
		if err != nil {
			return fmt.Errorf("prune deliveries: %w", err)
		}
		if n < pruneBatch {
			return nil
		}
	}
}
