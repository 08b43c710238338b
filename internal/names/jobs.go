package names

import (
	"context"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/authdns"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	sweepEvery = time.Minute
	// checkBatch of one sweep, and of one user in it; checkLook are read.
	checkBatch  = 20
	checkOfUser = 2
	checkLook   = 500
	cleanBatch  = 200
	// patience with a record that is gone, before renewals stop.
	patience = 30 * 24 * time.Hour
	// staleAge of a name that nobody proved.
	staleAge = 90 * 24 * time.Hour
	// freeAfter is when the names of a user who is gone are free again.
	freeAfter = 30 * 24 * time.Hour
)

// judgeArgs ask to judge the renewals of a user again, of certificates with
// names in the domain.
type judgeArgs struct {
	UserID int64  `json:"user_id"`
	Domain string `json:"domain"`
}

// Kind implements jobs.Args.
func (judgeArgs) Kind() string { return "names.judge" }

type sweepArgs struct{}

// Kind implements jobs.Args.
func (sweepArgs) Kind() string { return "names.sweep" }

// Register adds the jobs of the area.
func (s *Service) Register(r *jobs.Registry) {
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, j *jobs.Job[judgeArgs]) error {
		return s.Certificates.Judge(ctx, j.Args.UserID, j.Args.Domain)
	})
	jobs.Handle(r, jobs.Limits{}, func(ctx context.Context, _ *jobs.Job[sweepArgs]) error { return s.sweep(ctx) })
	r.Periodic("names.sweep", sweepEvery, sweepArgs{}, jobs.Options{Unique: true})
}

// UseJobs sets the engine, which can only be made after Register.
func (s *Service) UseJobs(j Inserter) { s.jobs = j }

func (s *Service) enqueue(ctx context.Context, tx *sqldb.Tx, args judgeArgs) error {
	return s.jobs.Insert(ctx, tx, args, jobs.Options{})
}

func (s *Service) sweep(ctx context.Context) error {
	return errors.Join(s.recheckAll(ctx), s.clean(ctx), s.sweepGrants(ctx))
}

// recheckAll looks again for records whose time has come, a few of each user.
func (s *Service) recheckAll(ctx context.Context) error {
	rows, err := New(s.DB.Reader()).claimsDue(ctx, claimsDueParams{Now: s.Now().UnixMilli(), Max: checkLook})
	if err != nil {
		return fmt.Errorf("find records to look for: %w", err)
	}
	deadline := time.Now().Add(jobs.DefaultTimeout / 2) // the rest comes with the next sweep
	done, of := 0, map[int64]int{}
	for i := range rows {
		user := rows[i].UserID.Int64
		if done == checkBatch || time.Now().After(deadline) {
			break
		}
		if of[user] == checkOfUser {
			continue
		}
		of[user]++
		done++
		if err := s.recheck(ctx, &rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// recheck looks for the record of one claim. Only a record that all servers
// miss is gone.
func (s *Service) recheck(ctx context.Context, seen *claimRow) error {
	r := s.record(seen.UserID.Int64, seen.Name)
	finding, lookErr := s.Records.Proof(ctx, r.Name, r.Value)
	if _, unknown := errors.AsType[*authdns.ErrUnknown](lookErr); lookErr != nil && !unknown {
		return fmt.Errorf("look for the record of %s: %w", seen.Name, lookErr)
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.lock(ctx, tx, seen.Name); err != nil {
			return err
		}
		row, err := New(tx).claimByID(ctx, seen.ID)
		if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && (row.State != stateHeld || row.NextCheckAt != seen.NextCheckAt) {
			return nil // it changed since
		}
		if err != nil {
			return fmt.Errorf("read a claim: %w", err)
		}
		return s.found(ctx, tx, &row, finding, lookErr)
	})
}

// found records what a look-up says about a claim.
func (s *Service) found(ctx context.Context, tx *sqldb.Tx, row *claimRow, finding authdns.Finding, lookErr error) error {
	now := s.Now()
	user := row.UserID.Int64
	before := *row
	switch {
	case lookErr != nil:
		row.NextCheckAt = now.Add(recheckUnknown).UnixMilli()
		return save(ctx, tx, row)
	case finding.Stands:
		row.AbsentSince, row.LapsedAt = 0, 0
		row.NextCheckAt = now.Add(recheck).UnixMilli()
	default:
		row.NextCheckAt = now.Add(recheckAbsent).UnixMilli()
		if row.AbsentSince == 0 {
			row.AbsentSince = now.UnixMilli()
		}
		if row.LapsedAt == 0 && now.Sub(time.UnixMilli(row.AbsentSince)) >= patience {
			row.LapsedAt = now.UnixMilli()
		}
	}
	row.CheckedAt = now.UnixMilli()
	if err := save(ctx, tx, row); err != nil {
		return err
	}
	if row.AbsentSince > 0 && before.AbsentSince == 0 {
		if err := s.note(ctx, tx, user, "name.proof_lost", row.Name, map[string]any{"why": finding.Why}); err != nil {
			return err
		}
		return s.tell(ctx, tx, user, "name-proof-lost", absentLetter(row.Name, now.Add(patience)))
	}
	if (row.LapsedAt > 0) == (before.LapsedAt > 0) {
		return nil
	}
	who, err := s.affected(ctx, tx, row)
	if err != nil {
		return err
	}
	if row.LapsedAt > 0 {
		if err := s.note(ctx, tx, user, "name.lapse", row.Name, nil); err != nil {
			return err
		}
		if err := s.tell(ctx, tx, user, "name-lapsed", lapsedLetter(row.Name)); err != nil {
			return err
		}
	}
	return s.changed(ctx, tx, row.Domain, who...)
}

// clean forgets names that nobody proved, and frees those of users who are gone.
func (s *Service) clean(ctx context.Context) error {
	now := s.Now()
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		stale, err := New(tx).stalePending(ctx, stalePendingParams{Before: now.Add(-staleAge).UnixMilli(), Max: cleanBatch})
		if err != nil {
			return fmt.Errorf("find stale names: %w", err)
		}
		gone, err := New(tx).claimsOfTheGone(ctx, claimsOfTheGoneParams{Now: now.UnixMilli(), Max: cleanBatch})
		if err != nil {
			return fmt.Errorf("find names of users who are gone: %w", err)
		}
		for i := range gone {
			if row := &gone[i]; row.State == stateHeld && row.FreedAt == 0 {
				row.FreedAt = now.Add(freeAfter).UnixMilli()
				if err := save(ctx, tx, row); err != nil {
					return err
				}
			} else if row.State != stateHeld || row.FreedAt <= now.UnixMilli() {
				stale = append(stale, *row)
			}
		}
		for _, row := range stale {
			if _, err := New(tx).deleteClaim(ctx, row.ID); err != nil {
				return fmt.Errorf("delete a name: %w", err)
			}
		}
		return nil
	})
}
