package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// recordLimit bounds the transaction that records results. It goes on when the
// job is cancelled: what was delivered should be known.
const recordLimit = 10 * time.Second

var errLeaseLost = errors.New("another process took over")

// record saves the results in one transaction. With last, which is when
// nothing is on its way, it also ends the run: settled is true then, unless
// something is due again.
func (r *run) record(ctx context.Context, last bool) (settled bool, err error) {
	if len(r.results) == 0 && !last {
		return false, nil
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer cancel()
	err = r.s.db.InTx(saving, func(tx *sqldb.Tx) error {
		settled = false
		hook, err := lock(saving, tx, r.hook.id)
		if err != nil {
			return err
		}
		if hook.holder != r.s.node {
			return errLeaseLost
		}
		r.stopped = r.stopped || hook.version != r.hook.version
		now := r.s.now().UnixMilli()
		if err := r.apply(saving, tx, now); err != nil {
			return err
		}
		reason := r.judge(&hook)
		if reason != "" {
			if err := r.s.disable(saving, tx, hook, reason, now); err != nil {
				return err
			}
			hook.enabled, r.stopped = false, true
		}
		if last {
			if settled, err = r.settle(saving, tx, hook, now, r.open(ctx)); err != nil {
				return err
			}
		}
		if settled {
			hook.holder, hook.leaseUntil = "", 0
		}
		return New(tx).saveRun(saving, saveRunParams{
			ID: hook.id, FailingSince: hook.health.failingSince, LastFailureAt: hook.health.lastFailure,
			LeaseHolder: hook.holder, LeaseUntil: hook.leaseUntil,
		})
	})
	if sqldb.Is(err, sqldb.ErrNotFound) || errors.Is(err, errLeaseLost) {
		r.s.log.InfoContext(ctx, "webhook deliveries end unrecorded", "webhook_id", r.hook.id, "attempts", len(r.results), "reason", err.Error())
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("record deliveries of webhook %d: %w", r.hook.id, err)
	}
	for _, res := range r.results {
		delete(r.known, res.delivery.ID)
		if status := res.status(); status == StatusPermanent || status == StatusExhausted {
			r.s.log.InfoContext(ctx, "a webhook delivery has failed for good", "webhook_id", r.hook.id, "delivery_id", res.delivery.ID,
				"status", status, "reason", res.err)
		}
	}
	r.results = r.results[:0]
	return settled, nil
}

// apply writes every result to its row and lets the next event of a
// certificate go when the one before it is finished.
func (r *run) apply(ctx context.Context, tx *sqldb.Tx, now int64) error {
	if len(r.results) == 0 {
		return nil
	}
	update, err := tx.PrepareContext(ctx, recordAttempt)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	defer update.Close()         //nolint:errcheck // it ends with the transaction
	over := map[int64]struct{}{} // certificates whose head is finished
	for _, res := range r.results {
		status, next, end := res.status(), int64(0), res.at
		if status == StatusPending {
			next, end = res.at+delay(res.delivery.Attempts+1, res.asked, r.s.random()).Milliseconds(), 0
		} else {
			over[res.delivery.CertID] = struct{}{}
		}
		if _, err := update.ExecContext(ctx, res.delivery.ID, status, res.code, res.err, res.at, next, end); err != nil {
			return fmt.Errorf("update delivery %d: %w", res.delivery.ID, err)
		}
	}
	q := New(tx)
	if held, err := q.anyHeld(ctx, r.hook.id); err != nil || !held {
		return err
	}
	for certID := range over {
		if err := q.releaseHeld(ctx, releaseHeldParams{WebhookID: r.hook.id, CertID: certID, NextAttemptAt: now}); err != nil {
			return fmt.Errorf("release the next event of certificate %d: %w", certID, err)
		}
	}
	return nil
}

// judge brings the webhook's health up to date and returns why it is to be
// disabled, or "". A test says nothing about health, but 410 is 410.
func (r *run) judge(hook *locked) (reason string) {
	for _, res := range r.results {
		giveUp := false
		switch {
		case res.delivery.Event == EventTest:
		case res.status() == StatusSuccess:
			hook.health = health{}
		default:
			hook.health, giveUp = hook.health.failed(res.at)
		}
		if res.gone() && hook.enabled {
			reason = reasonGone
		} else if giveUp && hook.enabled && reason == "" {
			reason = reasonFailing
		}
	}
	return reason
}

func (s *Service) disable(ctx context.Context, tx *sqldb.Tx, hook locked, reason string, now int64) error {
	if err := New(tx).disable(ctx, disableParams{ID: hook.id, DisabledReason: reason, UpdatedAt: now}); err != nil {
		return fmt.Errorf("disable: %w", err)
	}
	err := s.audit.Record(ctx, tx, audit.Entry{
		UserID: hook.userID, Action: "webhook.disabled", Object: fmt.Sprintf("webhook %d", hook.id),
		Detail: map[string]any{"reason": reason},
	})
	if err != nil || s.tell == nil {
		return err
	}
	return s.tell(ctx, tx, Disabled{UserID: hook.userID, WebhookID: hook.id, URL: hook.url, Reason: reason})
}

// settle ends the run unless it may go on and something is due.
func (r *run) settle(ctx context.Context, tx *sqldb.Tx, hook locked, now int64, open bool) (bool, error) {
	if hook.token != r.token {
		return true, nil // somebody planned anew
	}
	next, err := New(tx).nextAttempt(ctx, hook.id)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return false, fmt.Errorf("next attempt: %w", err)
	}
	if err != nil || !hook.enabled {
		return true, New(tx).plan(ctx, planParams{ID: hook.id}) // nothing to do
	}
	if next <= now && open && !r.stopped {
		return false, nil
	}
	return true, r.s.replan(ctx, tx, hook.id, max(next, now))
}
