package sqldb

import (
	"context"
	"database/sql"
	"sync"
)

// statements is a Querier that keeps every query prepared. Query texts are
// constants of the program, so their number is bounded.
//
// Its reads run to their end although the caller went away: SQLite's driver
// would start a goroutine per query to watch a context that can be cancelled,
// a fifth of the cost of a read, and every read here is short by design.
type statements struct {
	db    *sql.DB
	known sync.Map // query text → *sql.Stmt
}

func newStatements(db *sql.DB) *statements { return &statements{db: db} }

func (s *statements) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := s.known.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if other, raced := s.known.LoadOrStore(query, stmt); raced {
		_ = stmt.Close() //nolint:sqlclosecheck // the other one stays
		return other.(*sql.Stmt), nil
	}
	return stmt, nil
}

// ExecContext implements Querier.
func (s *statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.db.ExecContext(ctx, query, args...)
}

// PrepareContext implements Querier.
func (s *statements) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.db.PrepareContext(ctx, query)
}

// QueryContext implements Querier.
func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.statement(ctx, query) //nolint:sqlclosecheck // it stays prepared
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.WithoutCancel(ctx), args...)
}

// QueryRowContext implements Querier.
func (s *statements) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := s.statement(ctx, query) //nolint:sqlclosecheck // it stays prepared
	if err != nil {
		return s.db.QueryRowContext(ctx, query, args...) // carries the same error
	}
	return stmt.QueryRowContext(context.WithoutCancel(ctx), args...)
}

func (s *statements) close() {
	s.known.Range(func(_, stmt any) bool {
		_ = stmt.(*sql.Stmt).Close()
		return true
	})
}
