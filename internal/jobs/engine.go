package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"certharbor.dev/certharbor/internal/sqldb"
)

// rescueAfter is when another process takes up a job whose process died. It is
// above every time limit.
const rescueAfter = 90 * time.Second

// Options say how a job is enqueued. The zero value: at once, queue "default".
type Options struct {
	Queue       string
	At          time.Time // not before; zero: at once
	MaxAttempts int       // 0: 25
	Unique      bool      // not while one with equal arguments is waiting or running
}

func (o Options) river() *river.InsertOpts {
	opts := &river.InsertOpts{Queue: o.Queue, ScheduledAt: o.At, MaxAttempts: o.MaxAttempts}
	if o.Unique {
		opts.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: unfinished}
	}
	return opts
}

// Engine enqueues jobs and, between Start and Stop, runs them.
type Engine struct {
	db     *sqldb.DB
	sqlite *river.Client[*sql.Tx]
	pg     *river.Client[pgx.Tx]
	pool   *pgxpool.Pool
	hub    *hub
	turns  []*Turns
	mu     sync.Mutex
	closed bool
}

// New makes the engine. Work begins with Start.
func New(ctx context.Context, db *sqldb.DB, r *Registry, log *slog.Logger) (*Engine, error) {
	e := &Engine{db: db, turns: r.turns}
	config := &river.Config{
		Workers: r.workers, Queues: r.queues, PeriodicJobs: r.periodic,
		JobTimeout: DefaultTimeout, RescueStuckJobsAfter: rescueAfter,
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 500 * time.Millisecond,
		CompletedJobRetentionPeriod: time.Hour, DiscardedJobRetentionPeriod: 7 * 24 * time.Hour,
		Logger: log,
	}
	var err error
	if db.Dialect() == sqldb.SQLite {
		e.hub = &hub{}
		e.sqlite, err = river.NewClient(newLocalDriver(db.Writer(), e.hub), config)
	} else {
		if e.pool, err = pgxpool.New(ctx, db.URL()); err != nil {
			return nil, errors.New("open the job engine's connections: the database address is not accepted")
		}
		e.pg, err = river.NewClient(riverpgxv5.New(e.pool), config)
	}
	if err != nil {
		return nil, fmt.Errorf("make job engine: %w", err)
	}
	return e, nil
}

// Insert enqueues the job with the transaction: it exists when tx commits.
func (e *Engine) Insert(ctx context.Context, tx *sqldb.Tx, args Args, options Options) error {
	opts := options.river()
	if e.sqlite != nil {
		result, err := e.sqlite.InsertTx(ctx, tx.Tx, args, opts)
		if err != nil {
			return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
		}
		tx.AfterCommit(func() { e.hub.inserted(result.Job.Queue) })
		return nil
	}
	return tx.Pgx(func(conn *pgx.Conn) error {
		if _, err := e.pg.InsertTx(ctx, &connTx{conn}, args, opts); err != nil {
			return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
		}
		return nil
	})
}

// Start takes up what a dead process left and begins to run jobs.
func (e *Engine) Start(ctx context.Context) error {
	if e.sqlite == nil {
		return e.pg.Start(ctx)
	}
	err := e.db.InTx(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE river_job SET state = 'available' WHERE state = 'running'")
		return err
	})
	if err != nil {
		return fmt.Errorf("take up interrupted jobs: %w", err)
	}
	return e.sqlite.Start(ctx)
}

// Stop lets running jobs finish until ctx is done, then cancels them. It is
// safe to call more than once.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	for _, t := range e.turns {
		t.close()
	}
	err := e.stop(ctx)
	if e.pool != nil {
		e.pool.Close()
	}
	return err
}

func (e *Engine) stop(ctx context.Context) error {
	stop, cancel := func(ctx context.Context) error { return e.pg.Stop(ctx) }, func(ctx context.Context) error { return e.pg.StopAndCancel(ctx) }
	if e.sqlite != nil {
		stop, cancel = e.sqlite.Stop, e.sqlite.StopAndCancel
	}
	if err := stop(ctx); err == nil {
		return nil
	}
	final, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if err := cancel(final); err != nil {
		return fmt.Errorf("stop jobs: %w", err)
	}
	return nil
}

// Migrate brings the engine's own tables up to date. The caller holds the lock
// of the migrations.
func Migrate(ctx context.Context, db *sqldb.DB) error {
	if db.Dialect() == sqldb.SQLite {
		migrator, err := rivermigrate.New(newLocalDriver(db.Writer(), &hub{}), nil)
		if err != nil {
			return fmt.Errorf("read job migrations: %w", err)
		}
		return migrated(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
	}
	pool, err := pgxpool.New(ctx, db.URL())
	if err != nil {
		return errors.New("migrate job tables: the database address is not accepted")
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("read job migrations: %w", err)
	}
	return migrated(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
}

func migrated(_ *rivermigrate.MigrateResult, err error) error {
	if err != nil {
		return fmt.Errorf("migrate job tables: %w", err)
	}
	return nil
}
