package webhooks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Issued queues the event for every enabled webhook of its user whose scope
// covers it, with the transaction of the issuance. Called again for the same
// IssueHistoryID it adds nothing.
func (s *Service) Issued(ctx context.Context, tx *sqldb.Tx, e Event) error {
	targets, err := New(tx).listTargets(ctx, listTargetsParams{UserID: e.UserID, EventKey: EventIssued})
	if err != nil {
		return fmt.Errorf("list webhooks of user %d: %w", e.UserID, err)
	}
	for _, t := range targets { // in the order of their ids, so that two issuances cannot wait for each other
		scope := Scope{Type: t.ScopeType, CertID: t.ScopeCertID, Domain: t.ScopeDomain}
		if !scope.Covers(e) {
			continue
		}
		hook, err := lock(ctx, tx, t.ID)
		if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && !hook.enabled {
			continue // deleted or disabled while we waited for the lock
		}
		if err != nil {
			return err
		}
		if _, err := s.enqueue(ctx, tx, hook, EventIssued, e); err != nil {
			return err
		}
	}
	return nil
}

// enqueue adds a delivery to a locked webhook and sees to a job that drains
// it. It returns the delivery's id, or 0 when the issuance has one already.
func (s *Service) enqueue(ctx context.Context, tx *sqldb.Tx, hook locked, event string, e Event) (int64, error) {
	now := s.now().UnixMilli()
	text, err := encodeBody(event, e, now)
	if err != nil {
		return 0, err
	}
	id, err := New(tx).insertDelivery(ctx, insertDeliveryParams{
		WebhookID: hook.id, Event: event, CertID: e.CertID, IssueHistoryID: e.IssueHistoryID, Body: text, Now: now,
	})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("queue %s for webhook %d: %w", event, hook.id, err)
	}
	return id, s.plan(ctx, tx, hook, now)
}

// plan makes sure that a job drains the locked webhook at due (Unix ms) or
// before. The job that is planned for later finds that it was replaced.
func (s *Service) plan(ctx context.Context, tx *sqldb.Tx, hook locked, due int64) error {
	if hook.token != 0 && hook.due <= due {
		return nil
	}
	return s.replan(ctx, tx, hook.id, due)
}

// replan makes a new job the one that drains the locked webhook.
func (s *Service) replan(ctx context.Context, tx *sqldb.Tx, webhookID, due int64) error {
	token := rand.Int64() | 1 //nolint:gosec // any but 0; it guards nothing
	if err := New(tx).plan(ctx, planParams{ID: webhookID, DrainToken: token, DrainDue: due}); err != nil {
		return fmt.Errorf("plan webhook %d: %w", webhookID, err)
	}
	options := jobs.Options{Queue: queue}
	if due > s.now().UnixMilli() {
		options.At = time.UnixMilli(due)
	}
	return s.jobs.Insert(ctx, tx, drainArgs{WebhookID: webhookID, Token: token}, options)
}

// planNext plans for the earliest pending delivery of the locked webhook, if
// there is one.
func (s *Service) planNext(ctx context.Context, tx *sqldb.Tx, hook locked) error {
	next, err := New(tx).nextAttempt(ctx, hook.id)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("next attempt of webhook %d: %w", hook.id, err)
	}
	return s.plan(ctx, tx, hook, max(next, s.now().UnixMilli()))
}
