package administration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	sweepEvery   = 10 * time.Minute
	sweepTimeout = time.Minute
	// renewFor is how long the certificates of a disabled user are renewed.
	renewFor = 30 * 24 * time.Hour
)

// sweepArgs ask for a look at users who end.
type sweepArgs struct{}

// Kind implements jobs.Args.
func (sweepArgs) Kind() string { return "administration.sweep" }

// Register adds the area's jobs.
func (s *Service) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{Timeout: sweepTimeout}, func(ctx context.Context, _ *jobs.Job[sweepArgs]) error { return s.Sweep(ctx) })
	r.Periodic("administration.sweep", sweepEvery, sweepArgs{}, jobs.Options{Unique: true})
}

// Sweep stops the renewals of users who have been disabled for 30 days, lets
// those of users go on who are enabled again, and carries out the deletions that
// are due. One user that fails keeps no other from it.
func (s *Service) Sweep(ctx context.Context) error {
	disabled, err := s.Identity.DisabledSince(ctx, s.Now().Add(-renewFor))
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range disabled {
		failed = append(failed, s.hold(ctx, id))
	}
	enabled, err := s.Identity.EnabledAndHeld(ctx)
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for _, id := range enabled {
		failed = append(failed, s.resume(ctx, id))
	}
	due, err := dueDeletions(ctx, s.DB.Reader(), s.Now().UnixMilli())
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for _, d := range due {
		if err := s.carryOut(ctx, d); err != nil && !fault.Is(err, fault.CodeNotFound) { // another sweep was faster
			failed = append(failed, fmt.Errorf("delete user %d: %w", d.userID, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Service) hold(ctx context.Context, id int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		news, err := s.Identity.HoldRenewals(ctx, tx, id, true)
		if err != nil || !news {
			return err
		}
		if err := s.Renewals.HoldRenewals(ctx, tx, id); err != nil {
			return err
		}
		user, err := s.Identity.UserIn(ctx, tx, id)
		if err != nil {
			return err
		}
		s.Log.WarnContext(ctx, "the renewals of a user who has been disabled for 30 days have stopped", "user_id", id)
		return s.Identity.TellAdministrators(ctx, tx, heldLetter(id, user.Email, s.BaseURL))
	})
}

func (s *Service) resume(ctx context.Context, id int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		news, err := s.Identity.HoldRenewals(ctx, tx, id, false)
		if err != nil || !news {
			return err
		}
		return s.Renewals.ResumeRenewals(ctx, tx, id)
	})
}
