package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite" // also registers the driver "sqlite"
)

// Dialect is one of the two engines.
type Dialect string

// The engines.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// ForUpdate is the clause that locks the rows a SELECT returns until the end
// of the transaction. SQLite's immediate transactions need none.
func (d Dialect) ForUpdate() string {
	if d == Postgres {
		return " FOR UPDATE"
	}
	return ""
}

// ByBytes gives the text of a query that compares texts COLLATE "C", byte by
// byte. SQLite does so without being told, and knows no collation of the name.
func (d Dialect) ByBytes(query string) string {
	if d == SQLite {
		return strings.ReplaceAll(query, ` COLLATE "C"`, "")
	}
	return query
}

// SkipLocked is ForUpdate for workers that share a queue: rows that another
// transaction holds are passed over.
func (d Dialect) SkipLocked() string {
	if d == Postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// Config says which database to open.
type Config struct {
	URL  string // postgres://…; empty: SQLite
	Path string // the SQLite file
	Log  *slog.Logger
	// CommitFault, set by tests, is asked after each successful commit; when it
	// returns true the caller sees ErrUncertain although the write succeeded.
	CommitFault func() bool
}

// DB is an open database.
type DB struct {
	dialect     Dialect
	write       *sql.DB
	read        *sql.DB
	reader      Querier
	writes      *statements // of transactions, on SQLite; pgx keeps its own
	url         string
	logPath     string // SQLite's write-ahead log
	log         *slog.Logger
	commitFault func() bool
	broken      atomic.Bool
	brokenCh    chan struct{}
	brokenOnce  sync.Once
}

// Open opens the database and checks that it answers. It does not migrate.
func Open(ctx context.Context, c Config) (*DB, error) {
	db := &DB{log: c.Log, url: c.URL, commitFault: c.CommitFault, brokenCh: make(chan struct{})}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.URL != "" {
		err = db.openPostgres(c.URL)
	} else {
		err = db.openSQLite(c.Path)
	}
	if err != nil {
		return nil, err
	}
	if err := db.write.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}

func (db *DB) openSQLite(path string) error {
	db.dialect = SQLite
	db.logPath = path + "-wal"
	common := "file:" + strings.NewReplacer("?", "%3f", "#", "%23").Replace(path) +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
	connector, err := sqlite.NewConnector(common + "&_txlock=immediate&_pragma=cache_size(-4000)&_pragma=wal_autocheckpoint(0)" +
		fmt.Sprintf("&_pragma=journal_size_limit(%d)", maxLog))
	if err != nil {
		return fmt.Errorf("open SQLite writer: %w", err)
	}
	db.write = sql.OpenDB(watched{connector, db})
	db.write.SetMaxOpenConns(1)
	db.writes = newStatements(db.write)
	if db.read, err = sql.Open("sqlite", common+"&_pragma=query_only(1)&_pragma=cache_size(-2000)"); err != nil {
		return fmt.Errorf("open SQLite readers: %w", err)
	}
	readers := min(max(2, runtime.NumCPU()), 8)
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	db.reader = newStatements(db.read)
	return nil
}

func (db *DB) openPostgres(url string) error {
	db.dialect = Postgres
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("parse the database address: %w", errAddress)
	}
	db.write = stdlib.OpenDB(*config)
	db.write.SetMaxOpenConns(16)
	db.write.SetMaxIdleConns(8)
	db.read = db.write
	db.reader = db.read
	return nil
}

// errAddress replaces pgx's error, which quotes the address with its password.
var errAddress = errors.New("expected postgres://user:password@host:port/name")

// Dialect returns the engine.
func (db *DB) Dialect() Dialect { return db.dialect }

// URL returns the PostgreSQL address, a secret, or "" for SQLite.
func (db *DB) URL() string { return db.url }

// Reader reads outside of a transaction. On SQLite it cannot write.
func (db *DB) Reader() Querier { return db.reader }

// Writer is the pool that writes, for migrations and the job engine alone.
func (db *DB) Writer() *sql.DB { return db.write }

// Ping reports whether the database answers and can still be written.
func (db *DB) Ping(ctx context.Context) error {
	if db.broken.Load() {
		return ErrBroken
	}
	var one int
	return db.reader.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// Broken is closed when the database can no longer be written, for example
// after a failed sync. The process must stop then.
func (db *DB) Broken() <-chan struct{} { return db.brokenCh }

func (db *DB) markBroken(err error) {
	db.brokenOnce.Do(func() {
		db.broken.Store(true)
		db.log.Error("the database can no longer be written; stopping", "error", err)
		close(db.brokenCh)
	})
}

// Close closes all connections.
func (db *DB) Close() error {
	if s, ok := db.reader.(*statements); ok {
		s.close()
	}
	if db.writes != nil {
		db.writes.close()
	}
	err := db.write.Close()
	if db.read != db.write {
		err = firstError(db.read.Close(), err)
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
