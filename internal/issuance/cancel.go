package issuance

import (
	"context"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

var errCancelled = errors.New("the attempt was cancelled")

// Cancel ends an attempt that is PENDING or PROCESSING. Nothing is undone at
// the authority: the order there expires by itself. A certificate that it
// issues meanwhile is not stored.
func (s *Service) Cancel(ctx context.Context, userID, certID, id int64) error {
	for {
		err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			if err := s.Certs.Hold(ctx, tx, certID); err != nil {
				return err
			}
			row, err := s.own(ctx, tx, userID, certID, id)
			if err != nil {
				return err
			}
			if !open(row.Status) {
				return fault.Conflict("The attempt is %s; only one that is PENDING or PROCESSING can be cancelled.", row.Status)
			}
			return s.cancel(ctx, tx, row)
		})
		if !errors.Is(err, errLost) {
			return err
		}
		// The worker saved a step in between; every step ends, so this does too.
	}
}

func (s *Service) cancel(ctx context.Context, tx *sqldb.Tx, row issuanceRow) error {
	now := s.Now().UnixMilli()
	next := row
	next.Status, next.Step, next.ErrorMessage, next.CompletedAt = StatusCancelled, stepEnd, "cancelled", now
	if err := s.saveRow(ctx, tx, row, next, line{row.Step, "cancelled"}); err != nil {
		return err
	}
	if err := s.finish(ctx, tx, next); err != nil {
		return err
	}
	if err := s.renewLater(ctx, tx, next, 0); err != nil {
		return err
	}
	err := s.Audit.Record(ctx, tx, audit.Entry{
		UserID: row.UserID, Action: "issuance.cancel", Object: object(row.CertID), Detail: map[string]any{"issue_id": row.ID},
	})
	if err != nil {
		return err
	}
	tx.AfterCommit(func() { s.interrupt(row.ID) })
	return nil
}

// finish clears what an ended attempt no longer needs and tells its
// certificate, and the log, how it ended.
func (s *Service) finish(ctx context.Context, tx *sqldb.Tx, row issuanceRow) error {
	if err := s.Names.Ended(ctx, tx, row.ID); err != nil {
		return err
	}
	q := New(tx)
	if err := q.dropChallenges(ctx, row.ID); err != nil {
		return fmt.Errorf("drop challenges of issuance %d: %w", row.ID, err)
	}
	if err := q.dropKey(ctx, row.ID); err != nil {
		return fmt.Errorf("drop key of issuance %d: %w", row.ID, err)
	}
	tx.AfterCommit(func() {
		s.Log.InfoContext(ctx, "an issuance has ended", "issue_id", row.ID, "cert_id", row.CertID, "user_id", row.UserID, "status", row.Status,
			"cause", row.Cause, "reason", row.ErrorMessage)
	})
	return s.Certs.NoteIssue(ctx, tx, row.CertID, row.ID, row.Status, row.CompletedAt)
}
