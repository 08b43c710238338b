package webhooks

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// delivery is what an attempt needs of a row.
type delivery = dueDeliveriesRow

func toWebhook(r getWebhookRow) Webhook {
	w := Webhook{
		ID: r.ID, UserID: r.UserID, URL: r.Url, EventKey: r.EventKey,
		Scope:   Scope{Type: r.ScopeType, CertID: r.ScopeCertID, Domain: r.ScopeDomain},
		Enabled: r.Enabled, DisabledReason: r.DisabledReason, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.DeliveryID != 0 {
		last := toDelivery(getDeliveryRow{
			ID: r.DeliveryID, WebhookID: r.ID, Event: r.Event, CertID: r.CertID, IssueHistoryID: r.IssueHistoryID,
			Status: r.Status, Attempts: r.Attempts, LastStatusCode: r.LastStatusCode, LastError: r.LastError,
			LastAttemptAt: r.LastAttemptAt, NextAttemptAt: r.NextAttemptAt, CreatedAt: r.QueuedAt, FinishedAt: r.FinishedAt,
		}, r.Enabled)
		w.LastDelivery = &last
	}
	return w
}

// toDelivery hides the time of the next attempt while the webhook is disabled:
// there will be none until it is enabled.
func toDelivery(r getDeliveryRow, enabled bool) Delivery {
	d := Delivery(r)
	if !enabled {
		d.NextAttemptAt = 0
	}
	return d
}

// locked is a webhook whose row the transaction holds.
type locked struct {
	id, userID, version int64
	url                 string
	secret              []byte
	enabled             bool
	health              health
	token, due          int64
	holder              string
	leaseUntil          int64
}

const lockQuery = `SELECT id, user_id, version, url, secret, enabled, failing_since, last_failure_at,
	drain_token, drain_due, lease_holder, lease_until FROM service_webhooks WHERE id = $1`

// lock reads the webhook and keeps others from changing it, and from planning
// its jobs, until the transaction ends. The error is of class
// sqldb.ErrNotFound when there is none.
func lock(ctx context.Context, tx *sqldb.Tx, id int64) (locked, error) {
	var l locked
	err := tx.QueryRowContext(ctx, lockQuery+tx.Dialect().ForUpdate(), id).Scan(&l.id, &l.userID, &l.version, &l.url, &l.secret,
		&l.enabled, &l.health.failingSince, &l.health.lastFailure, &l.token, &l.due, &l.holder, &l.leaseUntil)
	if err != nil {
		return l, fmt.Errorf("lock webhook %d: %w", id, err)
	}
	return l, nil
}
