package webhooks

import (
	"context"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	countOwnedSQL      = `SELECT COUNT(*) FROM service_webhooks WHERE user_id = $1`
	eraseDeliveriesSQL = `DELETE FROM webhook_deliveries WHERE id IN (
    SELECT d.id FROM webhook_deliveries d JOIN service_webhooks w ON w.id = d.webhook_id WHERE w.user_id = $1 ORDER BY w.id, d.id LIMIT $2)`
	eraseWebhooksSQL = `DELETE FROM service_webhooks WHERE id IN (SELECT id FROM service_webhooks WHERE user_id = $1 ORDER BY id LIMIT $2)`
)

// CountOwned counts the user's webhooks.
func (s *Service) CountOwned(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	return sqldb.CountOwned(ctx, q, countOwnedSQL, userID)
}

// EraseOwned deletes at most limit of each kind of what the area keeps of the
// user, who is being deleted, and reports whether there may be more.
func (s *Service) EraseOwned(ctx context.Context, tx *sqldb.Tx, userID, limit int64) (more bool, err error) {
	return sqldb.EraseOwned(ctx, tx, userID, limit, eraseDeliveriesSQL, eraseWebhooksSQL)
}
