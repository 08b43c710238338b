package certs

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// A held renewal keeps its time with the sign turned: nothing that is due is
// below 0.
const (
	holdRenewalsSQL   = `UPDATE certificates SET next_renewal_at = -next_renewal_at WHERE user_id = $1 AND next_renewal_at > 0`
	resumeRenewalsSQL = `UPDATE certificates SET next_renewal_at = CASE WHEN -next_renewal_at < $2 THEN $2 ELSE -next_renewal_at END
WHERE user_id = $1 AND next_renewal_at < 0`
)

// HoldRenewals stops the renewals of a user until ResumeRenewals.
func (s *Service) HoldRenewals(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	if _, err := tx.ExecContext(ctx, holdRenewalsSQL, userID); err != nil {
		return fmt.Errorf("hold the renewals of user %d: %w", userID, err)
	}
	return nil
}

// ResumeRenewals has the user's renewals go on as they were planned; what is
// overdue is due now.
func (s *Service) ResumeRenewals(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	if _, err := tx.ExecContext(ctx, resumeRenewalsSQL, userID, s.Now().UnixMilli()); err != nil {
		return fmt.Errorf("resume the renewals of user %d: %w", userID, err)
	}
	return nil
}
