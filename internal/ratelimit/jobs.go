package ratelimit

import (
	"context"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
)

// SweepArgs asks for the deletion of windows that have ended.
type SweepArgs struct{}

// Kind implements jobs.Args.
func (SweepArgs) Kind() string { return "ratelimit.sweep" }

// Register adds the hourly sweep.
func (l *Limiter) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[SweepArgs]) error {
		return l.Sweep(ctx)
	})
	r.Periodic("ratelimit.sweep", time.Hour, SweepArgs{}, jobs.Options{})
}
