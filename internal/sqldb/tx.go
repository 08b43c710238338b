package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Querier is what store functions and sqlc's code run on: a Tx, or the Reader.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is an open transaction. It implements Querier.
type Tx struct {
	*sql.Tx
	db    *DB
	conn  *sql.Conn
	after []func()
	last  []ending
	used  map[string]*sql.Stmt // prepared statements of this transaction
	miss  []string             // queries to prepare for the next one
}

// Dialect returns the engine of the transaction.
func (tx *Tx) Dialect() Dialect { return tx.db.dialect }

// AfterCommit runs f once the transaction is committed. It is a hint: it is
// lost when the process dies in between or the commit is not confirmed.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// Keep keeps the row of the table from being deleted until tx ends; others may
// keep it too. Whoever locks rows that hang on it keeps it first: whoever
// deletes it goes from it to them. A row that is gone is no error. SQLite's
// immediate transactions need none of this.
func (tx *Tx) Keep(ctx context.Context, table string, id int64) error {
	if tx.db.dialect != Postgres {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SELECT id FROM "+table+" WHERE id = $1 FOR KEY SHARE", id); err != nil {
		return fmt.Errorf("keep a row of %s: %w", table, err)
	}
	return nil
}

// LockText keeps every other transaction that locks the same text waiting until
// tx ends: for what has no row yet. A transaction that locks several does so in
// their order. SQLite's immediate transactions need none of this.
func (tx *Tx) LockText(ctx context.Context, text string) error {
	if tx.db.dialect != Postgres {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", text); err != nil {
		return fmt.Errorf("lock %q: %w", text, err)
	}
	return nil
}

// ending is what a transaction does last, and for what.
type ending struct {
	owner any
	items []any
	do    func(ctx context.Context, tx *Tx, items []any) error
}

// AtEnd keeps item for do, which is called once with all items that were kept
// for the owner, in their order, as the last thing before the commit. What do
// locks is therefore locked after everything else in every transaction, and for
// no longer than the commit takes. An error of do rolls back.
func (tx *Tx) AtEnd(owner, item any, do func(ctx context.Context, tx *Tx, items []any) error) {
	for i := range tx.last {
		if tx.last[i].owner == owner {
			tx.last[i].items = append(tx.last[i].items, item)
			return
		}
	}
	tx.last = append(tx.last, ending{owner, []any{item}, do})
}

// Pgx gives the job engine the PostgreSQL connection of the transaction.
func (tx *Tx) Pgx(f func(*pgx.Conn) error) error {
	return tx.conn.Raw(func(driverConn any) error {
		return f(driverConn.(*stdlib.Conn).Conn())
	})
}

// maxAttempts bounds how often a transaction that lost a race is repeated.
const maxAttempts = 5

// InTx runs f in one transaction, which is committed when f returns nil and
// rolled back otherwise. f may run several times: PostgreSQL asks for a repeat
// when transactions collide, and what f found may be deleted before f refers to
// it, which a repeat finds out. The error of f is returned as it is.
func (db *DB) InTx(ctx context.Context, f func(tx *Tx) error) error {
	looked := db.dialect != Postgres
	for attempt := 1; ; attempt++ {
		err := db.once(ctx, f)
		if Is(err, errRetry) && attempt < maxAttempts {
			continue
		}
		if Is(err, ErrForeignKey) && !looked {
			looked = true
			continue
		}
		if db.dialect == SQLite && Is(err, ErrBroken) {
			db.markBroken(err)
		}
		return err
	}
}

func (db *DB) once(ctx context.Context, f func(tx *Tx) error) (err error) {
	if db.broken.Load() {
		return ErrBroken
	}
	var tx *Tx
	defer func() { // after the connection is back
		if err == nil && tx != nil {
			db.prepareFor(ctx, tx)
		}
	}()
	conn, err := db.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("get a database connection: %w", err)
	}
	defer conn.Close()
	raw, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	tx = &Tx{Tx: raw, db: db, conn: conn}
	defer func() {
		if p := recover(); p != nil {
			_ = raw.Rollback()
			panic(p)
		}
	}()
	if err := tx.run(ctx, f); err != nil {
		if rollback := raw.Rollback(); rollback != nil && !errors.Is(rollback, sql.ErrTxDone) {
			return errors.Join(err, fmt.Errorf("roll back: %w", rollback))
		}
		return err
	}
	if err := raw.Commit(); err != nil {
		return commitError(err)
	}
	if db.commitFault != nil && db.commitFault() {
		return fmt.Errorf("commit: %w", ErrUncertain)
	}
	for _, hint := range tx.after {
		hint()
	}
	return nil
}

// run is the transaction without its commit.
func (tx *Tx) run(ctx context.Context, f func(tx *Tx) error) error {
	if err := f(tx); err != nil {
		return err
	}
	for _, last := range tx.last {
		if err := last.do(ctx, tx, last.items); err != nil {
			return err
		}
	}
	return nil
}

// commitError says that the outcome is unknown when the connection went away
// while the commit was under way.
func commitError(err error) error {
	if classOf(err) == nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("commit: %w: %w", ErrUncertain, err)
	}
	return fmt.Errorf("commit: %w", err)
}
