package sqldb

import (
	"context"
	"fmt"
)

// CountOwned counts by a text whose $1 is the user.
func CountOwned(ctx context.Context, q Querier, text string, userID int64) (n int64, err error) {
	if err := q.QueryRowContext(ctx, text, userID).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what user %d owns: %w", userID, err)
	}
	return n, nil
}

// EraseOwned deletes at most limit rows by each of the texts, whose $1 is the
// user and $2 the limit, and reports whether there may be more.
func EraseOwned(ctx context.Context, tx *Tx, userID, limit int64, texts ...string) (more bool, err error) {
	for _, text := range texts {
		result, err := tx.ExecContext(ctx, text, userID, limit)
		if err != nil {
			return false, fmt.Errorf("erase what user %d owns: %w", userID, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return false, fmt.Errorf("erase what user %d owns: %w", userID, err)
		}
		if n >= limit {
			return true, nil // the next text when this one finds no more
		}
	}
	return false, nil
}
