package webhooks

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Deliveries returns a page of the webhook's deliveries, newest first, and
// their number.
func (s *Service) Deliveries(ctx context.Context, userID, webhookID int64, page web.Page) ([]Delivery, int64, error) {
	w, err := s.Get(ctx, userID, webhookID)
	if err != nil {
		return nil, 0, err
	}
	q := New(s.db.Reader())
	total, err := q.countDeliveries(ctx, webhookID)
	if err != nil {
		return nil, 0, fmt.Errorf("count deliveries: %w", err)
	}
	rows, err := q.listDeliveries(ctx, listDeliveriesParams{WebhookID: webhookID, PageLimit: page.Limit, PageOffset: page.Offset})
	if err != nil {
		return nil, 0, fmt.Errorf("list deliveries: %w", err)
	}
	var list []Delivery
	for _, row := range rows {
		list = append(list, toDelivery(getDeliveryRow(row), w.Enabled))
	}
	return list, total, nil
}

const disabledSentence = "The webhook is disabled; enable it first."

// Redeliver makes a finished delivery pending again, with all its attempts,
// under its old id; a pending one it hurries. It comes after the pending
// events of the same certificate that were first.
func (s *Service) Redeliver(ctx context.Context, userID, webhookID, deliveryID int64) (d Delivery, err error) {
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		hook, err := s.own(ctx, tx, userID, webhookID)
		if err != nil {
			return err
		}
		if d, err = readDelivery(ctx, tx, webhookID, deliveryID); err != nil {
			return err
		}
		if !hook.enabled {
			return fault.Conflict("%s", disabledSentence)
		}
		if err := s.try(ctx, tx, userID); err != nil {
			return err
		}
		now := s.now().UnixMilli()
		if d.Status == StatusPending {
			err = New(tx).hastenDelivery(ctx, hastenDeliveryParams{ID: deliveryID, NextAttemptAt: now})
		} else {
			err = New(tx).requeueDelivery(ctx, requeueDeliveryParams{WebhookID: webhookID, CertID: d.CertID, Now: now, ID: deliveryID})
		}
		if err != nil {
			return fmt.Errorf("redeliver %d: %w", deliveryID, err)
		}
		if err := s.plan(ctx, tx, hook, now); err != nil {
			return err
		}
		if d, err = readDelivery(ctx, tx, webhookID, deliveryID); err != nil {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "webhook.redeliver", Object: fmt.Sprintf("webhook %d", webhookID),
			Detail: map[string]any{"delivery_id": deliveryID},
		})
	})
	return d, err
}

// Test queues a webhook.test event, which is tried once. While one is pending
// it returns that one, and fresh is false.
func (s *Service) Test(ctx context.Context, userID, webhookID int64) (d Delivery, fresh bool, err error) {
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		hook, err := s.own(ctx, tx, userID, webhookID)
		if err != nil {
			return err
		}
		if !hook.enabled {
			return fault.Conflict("%s", disabledSentence)
		}
		id, err := New(tx).pendingTest(ctx, webhookID)
		if fresh = sqldb.Is(err, sqldb.ErrNotFound); fresh {
			if err := s.try(ctx, tx, userID); err != nil {
				return err
			}
			id, err = s.enqueue(ctx, tx, hook, EventTest, Event{UserID: userID})
		}
		if err != nil {
			return fmt.Errorf("test webhook %d: %w", webhookID, err)
		}
		if d, err = readDelivery(ctx, tx, webhookID, id); err != nil || !fresh {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "webhook.test", Object: fmt.Sprintf("webhook %d", webhookID),
			Detail: map[string]any{"delivery_id": id},
		})
	})
	return d, fresh, err
}

func readDelivery(ctx context.Context, q sqldb.Querier, webhookID, id int64) (Delivery, error) {
	row, err := New(q).getDelivery(ctx, getDeliveryParams{ID: id, WebhookID: webhookID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Delivery{}, fault.NotFound("delivery")
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("read delivery %d: %w", id, err)
	}
	return toDelivery(row, true), nil
}
