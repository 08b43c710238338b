package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
)

// checkpointEvery is after how many commits the log is written back into the
// database file.
const checkpointEvery = 128

// maxLog is how large the write-ahead log may stay, in bytes. What a burst of
// writes or a long read made larger is given back at the next checkpoint that
// finds no reader in its way; it waits for one no longer than truncatePatience,
// because writers wait too.
const (
	maxLog           = 16 << 20
	truncatePatience = 100 // ms
	busyPatience     = 10_000
)

// watched opens SQLite's writing connection so that every failure of the disk
// is seen, whoever's statement met it: the job engine runs its own. After the
// first one the connection takes nothing more, so that nothing is acknowledged
// that a later sync only seems to have made durable.
//
// It also writes the log back. SQLite would do so inside of a commit, and keep
// the failure of that sync to itself.
type watched struct {
	driver.Connector

	db *DB
}

// Connect implements driver.Connector.
func (w watched) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, w.db.judge(err)
	}
	return &watchedConn{sqliteConn: conn.(sqliteConn), db: w.db}, nil
}

// judge marks the database as broken when err says that the disk failed.
func (db *DB) judge(err error) error {
	if err != nil && errors.Is(classOf(err), ErrBroken) {
		db.markBroken(err)
	}
	return err
}

// sqliteConn is what the driver's connections can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type watchedConn struct {
	sqliteConn

	db      *DB
	inTx    bool
	commits int // since the last checkpoint
}

// BeginTx implements driver.ConnBeginTx.
func (c *watchedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if c.db.broken.Load() {
		return nil, ErrBroken
	}
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, c.db.judge(err)
	}
	c.inTx = true
	return &watchedTx{tx, c}, nil
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *watchedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.sqliteConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.db.judge(err)
	}
	return &watchedStmt{stmt.(sqliteStmt), c}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return executed(ctx, c, func() (driver.Result, error) { return c.sqliteConn.ExecContext(ctx, query, args) })
}

// QueryContext implements driver.QueryerContext.
func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return queried(c, func() (driver.Rows, error) { return c.sqliteConn.QueryContext(ctx, query, args) })
}

func executed(ctx context.Context, c *watchedConn, exec func() (driver.Result, error)) (driver.Result, error) {
	if c.db.broken.Load() {
		return nil, ErrBroken
	}
	result, err := exec()
	if err != nil {
		return nil, c.db.judge(err)
	}
	if !c.inTx {
		return result, c.committed(ctx)
	}
	return result, nil
}

func queried(c *watchedConn, query func() (driver.Rows, error)) (driver.Rows, error) {
	if c.db.broken.Load() {
		return nil, ErrBroken
	}
	rows, err := query()
	if err != nil {
		return nil, c.db.judge(err)
	}
	return &watchedRows{rows, c}, nil
}

// committed counts a commit and makes a checkpoint when it is time. A full disk
// only puts that off: the log holds everything.
func (c *watchedConn) committed(ctx context.Context) error {
	if c.commits++; c.commits < checkpointEvery {
		return nil
	}
	c.commits = 0
	ctx = context.WithoutCancel(ctx)
	checkpoint := "PRAGMA wal_checkpoint(PASSIVE)"
	if info, err := os.Stat(c.db.logPath); err == nil && info.Size() > maxLog {
		checkpoint = fmt.Sprintf("PRAGMA busy_timeout(%d); PRAGMA wal_checkpoint(TRUNCATE)", truncatePatience)
		defer func() {
			_, err := c.sqliteConn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", busyPatience), nil)
			_ = c.db.judge(err)
		}()
	}
	_, err := c.sqliteConn.ExecContext(ctx, checkpoint, nil)
	if err = c.db.judge(err); c.db.broken.Load() {
		return fmt.Errorf("write the log back: %w", err)
	}
	return nil
}

type watchedTx struct {
	driver.Tx

	conn *watchedConn
}

// Commit implements driver.Tx.
func (t *watchedTx) Commit() error {
	t.conn.inTx = false
	if t.conn.db.broken.Load() {
		return errors.Join(ErrBroken, t.Tx.Rollback())
	}
	if err := t.Tx.Commit(); err != nil {
		return t.conn.db.judge(err)
	}
	return t.conn.committed(context.Background())
}

// Rollback implements driver.Tx.
func (t *watchedTx) Rollback() error {
	t.conn.inTx = false
	return t.conn.db.judge(t.Tx.Rollback())
}

// sqliteStmt is what the driver's statements can do.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type watchedStmt struct {
	sqliteStmt

	conn *watchedConn
}

// ExecContext implements driver.StmtExecContext.
func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return executed(ctx, s.conn, func() (driver.Result, error) { return s.sqliteStmt.ExecContext(ctx, args) })
}

// QueryContext implements driver.StmtQueryContext.
func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return queried(s.conn, func() (driver.Rows, error) { return s.sqliteStmt.QueryContext(ctx, args) })
}

// watchedRows are those of a query, or of an INSERT … RETURNING, which outside
// of a transaction is committed when its rows end.
type watchedRows struct {
	driver.Rows

	conn *watchedConn
}

// Next implements driver.Rows.
func (r *watchedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		return r.conn.db.judge(err)
	}
	return err
}

// Close implements driver.Rows.
func (r *watchedRows) Close() error {
	err := r.conn.db.judge(r.Rows.Close())
	if err == nil && !r.conn.inTx {
		return r.conn.committed(context.Background())
	}
	return err
}
