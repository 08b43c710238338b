package issuance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// runTime bounds the job; a step begun shortly before budget is over still
	// fits.
	runTime  = 80 * time.Second // with the wait for a turn
	budget   = 25 * time.Second
	stepTime = 40 * time.Second
	// leaseTime is how long others leave an attempt alone whose worker is silent.
	leaseTime = runTime + 5*time.Second
	// heldTime is the longest wait for which a worker is held; for a longer one
	// the job is put back.
	heldTime = time.Second
	// firstLook is the first wait for a CA that does not say how long; it grows.
	firstLook = 10 * time.Millisecond
)

// run works on the attempt until it ends, has to wait, or is taken away.
func (s *Service) run(ctx context.Context, id int64) error {
	ctx, leave, ok := s.enter(ctx, id)
	if !ok {
		return nil // another job of this process is at it
	}
	defer leave()
	row, err := New(s.DB.Reader()).issuanceByID(ctx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && !open(row.Status) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read issuance %d: %w", id, err)
	}
	if wait := s.mustWait(row); wait > 0 {
		return jobs.Snooze(wait)
	}
	done, wait := s.turns.Enter(ctx, row.UserID, s.remote(ctx, row))
	if done == nil {
		return jobs.Snooze(wait)
	}
	defer done()
	a := &attempt{s: s, row: row, begin: time.Now()}
	return a.work(ctx)
}

// remote names the authority that the attempt will wait for. An account that
// is gone ends the attempt at its first step.
func (s *Service) remote(ctx context.Context, row issuanceRow) string {
	account, err := s.Accounts.Get(ctx, s.DB.Reader(), row.UserID, row.AcctID)
	if err != nil {
		return ""
	}
	directory, err := url.Parse(account.DirectoryURL)
	if err != nil {
		return ""
	}
	return directory.Host
}

// mustWait tells how long the attempt is another worker's, or not due.
func (s *Service) mustWait(row issuanceRow) time.Duration {
	left := time.UnixMilli(row.DueAt).Sub(s.Now())
	if row.LeaseUntil > 0 && (row.Holder == s.node || s.DB.Dialect() == sqldb.SQLite) {
		return 0 // of a run of this process that broke off, or of a dead process
	}
	return left
}

// enter keeps a second job of this process away from an attempt.
func (s *Service) enter(ctx context.Context, id int64) (context.Context, func(), bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.running[id]; taken {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.running[id] = cancel
	return ctx, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, id)
	}, true
}

// interrupt stops the run of a cancelled attempt in this process. Runs of
// others stop at their next save.
func (s *Service) interrupt(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel, ok := s.running[id]; ok {
		cancel(errCancelled)
	}
}

// work claims the attempt and takes step after step.
func (a *attempt) work(ctx context.Context) error {
	err, saveErr := a.claim(ctx)
	if errors.Is(saveErr, errLost) {
		return nil
	}
	if saveErr != nil {
		return saveErr
	}
	for {
		if err != nil {
			wait, handled := a.overcome(ctx, err)
			switch {
			case errors.Is(handled, errLost):
				return nil
			case handled != nil:
				return handled
			case !open(a.row.Status):
				return nil
			case wait > heldTime:
				return a.giveBack(ctx, wait)
			}
			_ = a.s.sleep(ctx, wait) // the end of ctx is seen below
		}
		if !open(a.row.Status) {
			return nil
		}
		if ctx.Err() != nil || time.Since(a.begin) > budget {
			return a.giveBack(ctx, 0)
		}
		a.s.reached(ctx, a.row.Step)
		err = a.step(ctx)
	}
}

// giveBack lets go of the attempt; the job comes back after the wait.
func (a *attempt) giveBack(ctx context.Context, wait time.Duration) error {
	if errors.Is(context.Cause(ctx), errCancelled) {
		return nil
	}
	err := a.save(ctx, "", func(r *issuanceRow) {
		r.LeaseUntil, r.DueAt = 0, a.s.Now().Add(wait).UnixMilli()
	}, nil)
	if errors.Is(err, errLost) {
		return nil
	}
	if err != nil {
		return err
	}
	return jobs.Snooze(wait)
}

// step does what is to be done next and saves it.
func (a *attempt) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if a.row.Step == stepPrepare {
		return a.prepare(ctx)
	}
	if a.client == nil {
		if err := a.connect(ctx); err != nil {
			return err
		}
	}
	if a.row.OrderUrl != "" && a.order.URL == "" {
		if err := a.resume(ctx); err != nil {
			return err
		}
	}
	switch a.row.Step {
	case stepAccount:
		return a.register(ctx)
	case stepOrder:
		return a.placeOrder(ctx)
	case stepAuthorize:
		return a.authorize(ctx)
	case stepValidate:
		return a.validate(ctx)
	case stepFinalize:
		return a.finalize(ctx)
	case stepDownload:
		return a.download(ctx)
	}
	return &acme.Problem{Detail: "unknown step " + a.row.Step, Class: acme.Permanent}
}
