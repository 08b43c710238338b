package apikeys

import (
	"context"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	countOwnedSQL = `SELECT COUNT(*) FROM api_keys WHERE user_id = $1`
	eraseKeysSQL  = `DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE user_id = $1 ORDER BY id LIMIT $2)`
)

// CountOwned counts the user's API keys.
func (s *Service) CountOwned(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	return sqldb.CountOwned(ctx, q, countOwnedSQL, userID)
}

// EraseOwned deletes at most limit of each kind of what the area keeps of the
// user, who is being deleted, and reports whether there may be more.
func (s *Service) EraseOwned(ctx context.Context, tx *sqldb.Tx, userID, limit int64) (more bool, err error) {
	return sqldb.EraseOwned(ctx, tx, userID, limit, eraseKeysSQL)
}
