package issuance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// patience is how long one step may fail before the attempt does, and
	// pollPatience how long the CA may take for it without failing.
	patience     = time.Hour
	pollPatience = 24 * time.Hour
	// maxReplacements of orders that the CA lost or spoiled.
	maxReplacements = 2

	firstWait = 500 * time.Millisecond
	busyWait  = 10 * time.Second // after a refusal for too many requests
	maxWait   = 5 * time.Minute
)

// backoff is the wait after the tries-th failure in a row. It grows from half
// a second to five minutes and is never shorter than the CA asks for.
func backoff(tries int64, p *acme.Problem) time.Duration {
	wait := firstWait
	if p.Status == 429 || strings.HasSuffix(p.Type, ":rateLimited") {
		wait = busyWait
	}
	wait = min(wait<<min(tries-1, 12), maxWait)
	wait += time.Duration((rand.Float64() - 0.5) * 0.2 * float64(wait)) //nolint:gosec // not a secret
	return max(wait, p.RetryAfter)
}

// overcome decides what a failed step leads to and saves it: the same step
// again after the wait, an earlier one, or the end of the attempt. Its error is
// that of the save.
func (a *attempt) overcome(ctx context.Context, err error) (time.Duration, error) {
	if errors.Is(err, errLost) {
		return 0, err
	}
	if errors.Is(context.Cause(ctx), errCancelled) {
		return 0, errLost
	}
	if ctx.Err() != nil {
		return 0, nil //nolint:nilerr // the process stops or the job's time is over; nobody failed
	}
	if later, ok := errors.AsType[*acme.Later](err); ok {
		return a.later(ctx, later.After)
	}
	if f := fault.As(err); f != nil && f.Code == fault.CodeRateLimited { // a limit of ours, such as that on new accounts
		return a.later(ctx, f.RetryAfter)
	}
	p := problem(err)
	if p.Err != nil {
		a.s.Log.WarnContext(ctx, "a step of an issuance failed", "issue_id", a.row.ID, "step", a.row.Step, "class", p.Class.String(), "error", p.Err)
	}
	switch p.Class {
	case acme.AccountGone:
		return a.accountGone(ctx, p)
	case acme.OrderGone:
		return a.orderGone(ctx, p)
	case acme.Permanent:
		return 0, a.fail(ctx, p.Error(), p.RetryAfter)
	default:
		return a.again(ctx, p)
	}
}

// problem makes a Problem of any error. A fault of another area is final, an
// unknown error may pass.
func problem(err error) *acme.Problem {
	if _, ok := errors.AsType[*acme.Problem](err); !ok {
		if f := fault.As(err); f != nil && f.Code != fault.CodeInternal && f.Code != fault.CodeUnavailable {
			return &acme.Problem{Detail: f.What, Class: acme.Permanent, Err: err}
		}
	}
	return acme.AsProblem(err)
}

// later waits for a CA that is at work.
func (a *attempt) later(ctx context.Context, wait time.Duration) (time.Duration, error) {
	if a.s.Now().Add(wait).Sub(time.UnixMilli(a.row.StepSince)) > pollPatience {
		return 0, a.fail(ctx, fmt.Sprintf("%s: the CA did not finish within %s", a.row.Step, pollPatience), 0)
	}
	return max(wait, heldTime+1), nil // the worker is better used elsewhere
}

// again repeats the step after a wait, unless it has failed for too long.
func (a *attempt) again(ctx context.Context, p *acme.Problem) (time.Duration, error) {
	wait := a.s.backoff(a.row.Tries+1, p)
	failing := a.s.Now().Sub(time.UnixMilli(a.row.StepSince))
	if p.RetryAfter > patience {
		return 0, a.fail(ctx, fmt.Sprintf("the CA asks to wait for %s: %s", p.RetryAfter, p.Error()), wait)
	}
	if failing+wait > patience {
		return 0, a.fail(ctx, fmt.Sprintf("gave up after %s: %s", failing.Round(time.Second), p.Error()), wait)
	}
	err := a.save(ctx, fmt.Sprintf("%s; again in %s", p.Error(), wait.Round(time.Millisecond)), func(r *issuanceRow) { r.Tries++ }, nil)
	return wait, err
}

// accountGone registers the account again, once.
func (a *attempt) accountGone(ctx context.Context, p *acme.Problem) (time.Duration, error) {
	if a.row.Registrations > 0 || finalized(a.row.Step) {
		return 0, a.fail(ctx, p.Error(), 0)
	}
	if err := a.s.Accounts.Forget(ctx, &a.account); err != nil {
		return a.again(ctx, problem(err))
	}
	a.client, a.order, a.challenges = nil, acme.Order{}, nil
	return 0, a.save(ctx, p.Error()+"; registering the account again", func(r *issuanceRow) {
		r.Registrations++
		r.Step, r.OrderUrl = stepAccount, ""
	}, a.s.withoutChallenges)
}

// orderGone places another order where the old one cannot have given a
// certificate.
func (a *attempt) orderGone(ctx context.Context, p *acme.Problem) (time.Duration, error) {
	if finalized(a.row.Step) && !a.dead || a.row.Orders > maxReplacements {
		return 0, a.fail(ctx, p.Error(), 0)
	}
	wait := a.s.backoff(a.row.Orders, p)
	a.order, a.challenges, a.accepted, a.dead = acme.Order{}, nil, false, false
	return wait, a.save(ctx, p.Error()+"; another order is placed", func(r *issuanceRow) {
		r.Step, r.OrderUrl = stepOrder, ""
	}, a.s.withoutChallenges)
}

func (s *Service) withoutChallenges(ctx context.Context, tx *sqldb.Tx, row issuanceRow) error {
	return New(tx).dropChallenges(ctx, row.ID)
}

// fail ends the attempt. A renewal is tried again, not before wait.
func (a *attempt) fail(ctx context.Context, message string, wait time.Duration) error {
	return a.save(ctx, "failed: "+message, func(r *issuanceRow) {
		r.Status, r.Step, r.ErrorMessage, r.CompletedAt = StatusFailed, stepEnd, message, a.s.Now().UnixMilli()
	}, func(ctx context.Context, tx *sqldb.Tx, next issuanceRow) error {
		if err := a.s.finish(ctx, tx, next); err != nil {
			return err
		}
		return a.s.renewLater(ctx, tx, next, wait)
	})
}
