package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

type hello struct {
	Name string `json:"name"`
}

func (hello) Kind() string { return "test.hello" }

func start(t *testing.T, db *sqldb.DB, r *jobs.Registry) *jobs.Engine {
	t.Helper()
	e, err := jobs.New(t.Context(), db, r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

func wait[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing happened in 20 s")
		panic("unreachable")
	}
}

func TestJobRunsWhenItsTransactionCommitsAndOnlyThen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ran := make(chan string, 10)
		r := jobs.NewRegistry()
		jobs.Handle(r, jobs.Limits{}, func(_ context.Context, job *jobs.Job[hello]) error {
			ran <- job.Args.Name
			return nil
		})
		e := start(t, db, r)
		insert := func(name string, result error) error {
			return db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				return errors.Join(e.Insert(t.Context(), tx, hello{name}, jobs.Options{}), result)
			})
		}
		if err := insert("rolled back", errors.New("no")); err == nil {
			t.Fatal("the transaction was committed")
		}
		begin := time.Now()
		if err := insert("committed", nil); err != nil {
			t.Fatal(err)
		}
		if got := wait(t, ran); got != "committed" {
			t.Fatal(got)
		}
		t.Logf("%v from insert to run", time.Since(begin))
	})
}

func TestFailedJobIsRepeated(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		attempts := make(chan int, 10)
		r := jobs.NewRegistry()
		retry := func(int) time.Duration { return time.Millisecond }
		jobs.Handle(r, jobs.Limits{Retry: retry}, func(_ context.Context, job *jobs.Job[hello]) error {
			attempts <- job.Attempt
			if job.Attempt < 2 {
				return errors.New("not yet")
			}
			return nil
		})
		e := start(t, db, r)
		if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return e.Insert(t.Context(), tx, hello{}, jobs.Options{}) }); err != nil {
			t.Fatal(err)
		}
		if first, second := wait(t, attempts), wait(t, attempts); first != 1 || second != 2 {
			t.Fatal(first, second)
		}
	})
}

func TestUniqueJobKeepsOthersOut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := jobs.NewRegistry()
		jobs.Handle(r, jobs.Limits{}, func(context.Context, *jobs.Job[hello]) error { return nil })
		e, err := jobs.New(t.Context(), db, r, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		err = db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			for range 3 {
				if err := e.Insert(t.Context(), tx, hello{"same"}, jobs.Options{Unique: true}); err != nil {
					return err
				}
			}
			return e.Insert(t.Context(), tx, hello{"other"}, jobs.Options{Unique: true})
		})
		var n int
		if scan := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM river_job").Scan(&n); err != nil || scan != nil || n != 2 {
			t.Fatal(err, scan, n)
		}
	})
}

// A process that died leaves its job running; the next one takes it up at once
// on SQLite.
func TestInterruptedJobIsTakenUp(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	ran := make(chan struct{}, 1)
	r := jobs.NewRegistry()
	jobs.Handle(r, jobs.Limits{}, func(context.Context, *jobs.Job[hello]) error {
		ran <- struct{}{}
		return nil
	})
	idle, err := jobs.New(t.Context(), db, r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	err = db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		if err := idle.Insert(t.Context(), tx, hello{}, jobs.Options{}); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), "UPDATE river_job SET state = 'running', attempt = 1, attempted_at = CURRENT_TIMESTAMP")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r2 := jobs.NewRegistry()
	jobs.Handle(r2, jobs.Limits{}, func(context.Context, *jobs.Job[hello]) error {
		ran <- struct{}{}
		return nil
	})
	start(t, db, r2)
	wait(t, ran)
}
