package administration

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// deletion is a row of user_deletions.
type deletion struct {
	userID, deleteAt, beganAt, attempts int64
}

const (
	insertDeletionSQL = `INSERT INTO user_deletions (user_id, asked_at, asked_by, delete_at, began_at, due_at, attempts, last_error)
VALUES ($1, $2, $3, $4, 0, $4, 0, '') ON CONFLICT (user_id) DO NOTHING`
	deletionSQL        = `SELECT user_id, delete_at, began_at, attempts FROM user_deletions WHERE user_id = $1`
	dueDeletionsSQL    = `SELECT user_id, delete_at, began_at, attempts FROM user_deletions WHERE due_at <= $1 ORDER BY due_at LIMIT $2`
	cancelDeletionSQL  = `DELETE FROM user_deletions WHERE user_id = $1 AND began_at = 0`
	beginDeletionSQL   = `UPDATE user_deletions SET began_at = $2 WHERE user_id = $1 AND began_at = 0`
	putOffDeletionSQL  = `UPDATE user_deletions SET due_at = $2, attempts = attempts + 1, last_error = $3 WHERE user_id = $1`
	maxDeletionsASweep = 10
)

// readDeletion is the user's deletion, the zero value when there is none.
func readDeletion(ctx context.Context, q sqldb.Querier, userID int64) (d deletion, err error) {
	err = q.QueryRowContext(ctx, deletionSQL, userID).Scan(&d.userID, &d.deleteAt, &d.beganAt, &d.attempts)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return d, fmt.Errorf("read the deletion of user %d: %w", userID, err)
	}
	return d, nil
}

func dueDeletions(ctx context.Context, q sqldb.Querier, now int64) (due []deletion, err error) {
	rows, err := q.QueryContext(ctx, dueDeletionsSQL, now, maxDeletionsASweep)
	if err != nil {
		return nil, fmt.Errorf("list deletions: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d deletion
		if err := rows.Scan(&d.userID, &d.deleteAt, &d.beganAt, &d.attempts); err != nil {
			return nil, fmt.Errorf("list deletions: %w", err)
		}
		due = append(due, d)
	}
	return due, rows.Err()
}

// changeOne runs a statement that changes at most one row and reports whether it
// did.
func changeOne(ctx context.Context, tx *sqldb.Tx, text string, args ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, text, args...)
	if err != nil {
		return false, fmt.Errorf("change a deletion: %w", err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
