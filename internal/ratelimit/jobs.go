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

// Register adds the sweep.
func (l *Limiter) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[SweepArgs]) error {
		return l.Sweep(ctx)
	})
	r.Periodic("ratelimit.sweep", 5*time.Minute, SweepArgs{}, jobs.Options{})
}
