package providers

import (
	"context"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	countOwnedSQL    = `SELECT COUNT(*) FROM provider_bindings WHERE user_id = $1`
	eraseBindingsSQL = `DELETE FROM provider_bindings WHERE id IN (SELECT id FROM provider_bindings WHERE user_id = $1 ORDER BY id LIMIT $2)`
)

// CountOwned counts the user's accounts elsewhere.
func (s *Service) CountOwned(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	return sqldb.CountOwned(ctx, q, countOwnedSQL, userID)
}

// EraseOwned deletes at most limit of each kind of what the area keeps of the
// user, who is being deleted, and reports whether there may be more.
func (s *Service) EraseOwned(ctx context.Context, tx *sqldb.Tx, userID, limit int64) (more bool, err error) {
	return sqldb.EraseOwned(ctx, tx, userID, limit, eraseBindingsSQL)
}
