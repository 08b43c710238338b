package jobs

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connTx presents a connection that is inside a transaction already, begun by
// database/sql, as a pgx.Tx to River. The service that began it ends it.
type connTx struct{ conn *pgx.Conn }

var errNotOurs = errors.New("jobs: the transaction belongs to the service")

// Begin implements pgx.Tx with a savepoint.
func (t *connTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if _, err := t.conn.Exec(ctx, "SAVEPOINT river"); err != nil {
		return nil, err
	}
	return &savepoint{connTx: *t}, nil
}

// Commit implements pgx.Tx.
func (t *connTx) Commit(context.Context) error { return errNotOurs }

// Rollback implements pgx.Tx.
func (t *connTx) Rollback(context.Context) error { return errNotOurs }

// CopyFrom implements pgx.Tx.
func (t *connTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, rows)
}

// SendBatch implements pgx.Tx.
func (t *connTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}

// LargeObjects implements pgx.Tx; River uses none.
func (t *connTx) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

// Prepare implements pgx.Tx.
func (t *connTx) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	return t.conn.Prepare(ctx, name, query)
}

// Exec implements pgx.Tx.
func (t *connTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, query, args...)
}

// Query implements pgx.Tx.
func (t *connTx) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, query, args...)
}

// QueryRow implements pgx.Tx.
func (t *connTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, query, args...)
}

// Conn implements pgx.Tx.
func (t *connTx) Conn() *pgx.Conn { return t.conn }

// savepoint is the inner transaction that River begins around an insert.
type savepoint struct {
	connTx
	done bool
}

// Commit implements pgx.Tx.
func (s *savepoint) Commit(ctx context.Context) error { return s.end(ctx, "RELEASE SAVEPOINT river") }

// Rollback implements pgx.Tx.
func (s *savepoint) Rollback(ctx context.Context) error {
	return s.end(ctx, "ROLLBACK TO SAVEPOINT river")
}

func (s *savepoint) end(ctx context.Context, statement string) error {
	if s.done {
		return pgx.ErrTxClosed
	}
	s.done = true
	_, err := s.conn.Exec(ctx, statement)
	return err
}
