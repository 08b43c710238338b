package issuance

import (
	"context"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	eraseOrdersSQL = `DELETE FROM issuance_orders WHERE id IN (SELECT id FROM issuance_orders WHERE user_id = $1 LIMIT $2)`
)

// EraseOwned deletes at most limit of each kind of what the area keeps of the
// user, who is being deleted, and reports whether there may be more.
func (s *Service) EraseOwned(ctx context.Context, tx *sqldb.Tx, userID, limit int64) (more bool, err error) {
	return sqldb.EraseOwned(ctx, tx, userID, limit, eraseOrdersSQL)
}
