// Package migrate brings a database to the schema of this program.
//
// The migrations are numbered files, one folder per engine, forward only. They
// run under a lock, so that several processes may start together: one applies,
// the others wait. A test compares the schemas of both engines.
package migrate

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"certharbor.dev/certharbor/internal/sqldb"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// lockKey is the PostgreSQL advisory lock of everyone who migrates.
const lockKey = 0x63657274686172 // "certhar"

// Up applies what is missing, then calls more (the job engine's migrations) if
// it is not nil. A database that is up to date costs one query; add a migration
// when more has something new. On PostgreSQL an advisory lock keeps other
// processes out; on SQLite the caller holds a file lock.
func Up(ctx context.Context, db *sqldb.DB, more func(context.Context) error) error {
	folder, err := fs.Sub(files, string(db.Dialect()))
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	newest, err := newestVersion(folder)
	if err != nil {
		return err
	}
	if current(ctx, db) == newest {
		return nil
	}
	unlock, err := lock(ctx, db)
	if err != nil {
		return err
	}
	defer unlock()
	if more != nil { // first, so that our newest version stands for all of it
		if err := more(ctx); err != nil {
			return err
		}
	}
	return apply(ctx, db, folder)
}

func apply(ctx context.Context, db *sqldb.DB, folder fs.FS) error {
	dialect := goose.DialectSQLite3
	if db.Dialect() == sqldb.Postgres {
		dialect = goose.DialectPostgres
	}
	provider, err := goose.NewProvider(dialect, db.Writer(), folder)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

func newestVersion(folder fs.FS) (int64, error) {
	names, err := fs.Glob(folder, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("list migrations: found %d: %w", len(names), err)
	}
	number, _, _ := strings.Cut(path.Base(names[len(names)-1]), "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("name of the newest migration: %w", err)
	}
	return version, nil
}

// current is the applied version, or -1 when the table is not there yet.
func current(ctx context.Context, db *sqldb.DB) int64 {
	var version sql.NullInt64
	err := db.Writer().QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version WHERE is_applied").Scan(&version)
	if err != nil || !version.Valid {
		return -1
	}
	return version.Int64
}

func lock(ctx context.Context, db *sqldb.DB) (unlock func(), err error) {
	if db.Dialect() != sqldb.Postgres {
		return func() {}, nil
	}
	conn, err := db.Writer().Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock for migrations: %w", err)
	}
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", lockKey); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("lock for migrations: %w", err)
	}
	return func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", lockKey)
		_ = conn.Close()
	}, nil
}
