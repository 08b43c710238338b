package sqldb

import (
	"context"
	"database/sql"
	"slices"
)

// SQLite spends more on parsing an INSERT with a handful of indexes than on
// running it. Transactions therefore keep the texts that they execute, or
// query for one row, prepared on the one writer connection. A text is prepared
// after the first transaction that used it: within one the connection is taken.
//
// QueryContext is left out: a prepared statement must not be run again while
// the rows of its last run are still being read.

// ExecContext implements Querier.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := tx.prepared(ctx, query); stmt != nil { //nolint:sqlclosecheck // it ends with the transaction
		// As with reads: a goroutine per statement that waits for a cancellation
		// costs more than the statement, and the transaction heeds it anyway.
		return stmt.ExecContext(context.WithoutCancel(ctx), args...)
	}
	return tx.Tx.ExecContext(ctx, query, args...)
}

// QueryRowContext implements Querier.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt := tx.prepared(ctx, query); stmt != nil { //nolint:sqlclosecheck // it ends with the transaction
		return stmt.QueryRowContext(context.WithoutCancel(ctx), args...)
	}
	return tx.Tx.QueryRowContext(ctx, query, args...)
}

// prepared returns the statement of the query, or nil when it is to be sent as
// text.
func (tx *Tx) prepared(ctx context.Context, query string) *sql.Stmt {
	if tx.db.writes == nil {
		return nil
	}
	if stmt, ok := tx.used[query]; ok {
		return stmt
	}
	known, ok := tx.db.writes.known.Load(query)
	if !ok {
		if !slices.Contains(tx.miss, query) {
			tx.miss = append(tx.miss, query)
		}
		return nil
	}
	if tx.used == nil {
		tx.used = map[string]*sql.Stmt{}
	}
	stmt := tx.StmtContext(ctx, known.(*sql.Stmt)) //nolint:sqlclosecheck // it ends with the transaction
	tx.used[query] = stmt
	return stmt
}

// prepareFor prepares what the transaction missed, for those that follow. What
// cannot be prepared goes on being sent as text.
func (db *DB) prepareFor(ctx context.Context, tx *Tx) {
	for _, query := range tx.miss {
		if _, err := db.writes.statement(context.WithoutCancel(ctx), query); err != nil { //nolint:sqlclosecheck // it stays prepared
			db.log.DebugContext(ctx, "statement is not kept prepared", "error", err)
		}
	}
}
