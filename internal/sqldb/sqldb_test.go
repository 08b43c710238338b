package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const insertEntry = `INSERT INTO audit_log (at, user_id, actor, action, object, detail, request_id) VALUES ($1, $2, '', '', '', '', '')`

func count(t *testing.T, q sqldb.Querier) (n int) {
	t.Helper()
	if err := q.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM audit_log").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInTx(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		add := func(tx *sqldb.Tx) error {
			_, err := tx.ExecContext(t.Context(), insertEntry, 1, 2)
			return err
		}
		hints := 0
		commit := func(tx *sqldb.Tx) error { tx.AfterCommit(func() { hints++ }); return add(tx) }
		if err := db.InTx(t.Context(), commit); err != nil || hints != 1 || count(t, db.Reader()) != 1 {
			t.Fatalf("commit: %v, %d hints, %d rows", err, hints, count(t, db.Reader()))
		}
		mine := errors.New("mine")
		rollback := func(tx *sqldb.Tx) error { return errors.Join(commit(tx), mine) }
		if err := db.InTx(t.Context(), rollback); !errors.Is(err, mine) || hints != 1 || count(t, db.Reader()) != 1 {
			t.Fatalf("rollback: %v, %d hints, %d rows", err, hints, count(t, db.Reader()))
		}
		func() {
			defer func() { _ = recover() }()
			_ = db.InTx(t.Context(), func(tx *sqldb.Tx) error { _ = add(tx); panic("x") })
		}()
		if got := count(t, db.Reader()); got != 1 {
			t.Fatalf("a panic left %d rows", got)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := db.InTx(canceled, add); !errors.Is(err, context.Canceled) {
			t.Fatalf("canceled: %v", err)
		}
	})
}

func TestConcurrentWritersAllSucceed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var group sync.WaitGroup
		errs := make(chan error, 20)
		for i := range 20 {
			group.Go(func() {
				errs <- db.InTx(t.Context(), func(tx *sqldb.Tx) error {
					var n int // read, then write: what deadlocks a deferred SQLite transaction
					if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM audit_log").Scan(&n); err != nil {
						return err
					}
					_, err := tx.ExecContext(t.Context(), insertEntry, i, n)
					return err
				})
			})
		}
		group.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		if got := count(t, db.Reader()); got != 20 {
			t.Errorf("%d rows", got)
		}
	})
}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		exec := func(statement string) error {
			return db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				_, err := tx.ExecContext(t.Context(), statement)
				return fmt.Errorf("wrapped: %w", err)
			})
		}
		for _, statement := range []string{"CREATE TABLE p (id BIGINT PRIMARY KEY, u TEXT UNIQUE)", "CREATE TABLE c (p BIGINT REFERENCES p(id))", "INSERT INTO p VALUES (1, 'a')"} {
			if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.ExecContext(t.Context(), statement); return err }); err != nil {
				t.Fatal(err)
			}
		}
		for statement, class := range map[string]error{
			"INSERT INTO p VALUES (1, 'b')": sqldb.ErrConflict,
			"INSERT INTO p VALUES (2, 'a')": sqldb.ErrConflict,
			"INSERT INTO c VALUES (7)":      sqldb.ErrForeignKey,
		} {
			if err := exec(statement); !sqldb.Is(err, class) {
				t.Errorf("%s: %v is not %v", statement, err, class)
			}
		}
		var n int
		if err := db.Reader().QueryRowContext(t.Context(), "SELECT id FROM p WHERE id = 9").Scan(&n); !sqldb.Is(err, sqldb.ErrNotFound) {
			t.Errorf("no row: %v", err)
		}
	})
}

func TestCommitFaultWritesButReportsUncertain(t *testing.T) {
	t.Parallel()
	config := dbtest.SQLiteConfig(t)
	config.CommitFault = func() bool { return true }
	db := dbtest.Open(t, config)
	err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		tx.AfterCommit(func() { t.Error("the hint of an unconfirmed commit ran") })
		_, err := tx.ExecContext(t.Context(), insertEntry, 1, 1)
		return err
	})
	if !sqldb.Is(err, sqldb.ErrUncertain) || count(t, db.Reader()) != 1 {
		t.Fatalf("%v, %d rows", err, count(t, db.Reader()))
	}
}

func TestReaderOfSQLiteCannotWrite(t *testing.T) {
	t.Parallel()
	if _, err := dbtest.SQLite(t).Reader().ExecContext(t.Context(), insertEntry, 1, 1); err == nil {
		t.Fatal("a reader wrote")
	}
}

func TestAddressErrorHidesThePassword(t *testing.T) {
	t.Parallel()
	_, err := sqldb.Open(t.Context(), sqldb.Config{URL: "postgres://u:hunter2@:x:y/z"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatal(err)
	}
}

// The texts of transactions are prepared after their first use; nothing may
// change by that, not even when the schema does.
func TestTransactionsRunPrepared(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		insert := "INSERT INTO audit_log (at, user_id, actor, action, object, detail, request_id) VALUES ($1, $1, '', '', '', '', '') RETURNING id"
		for round := 1; round <= 5; round++ {
			if round == 4 {
				if _, err := db.Writer().ExecContext(t.Context(), "ALTER TABLE audit_log ADD COLUMN more TEXT NOT NULL DEFAULT 'x'"); err != nil {
					t.Fatal(err)
				}
			}
			err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				for n := range 3 {
					var id int
					if err := tx.QueryRowContext(t.Context(), insert, n).Scan(&id); err != nil {
						return err
					}
					if want := (round-1)*3 + n + 1; id != want {
						t.Errorf("round %d: id %d, want %d", round, id, want)
					}
					result, err := tx.ExecContext(t.Context(), "UPDATE audit_log SET actor = $2 WHERE id = $1", id, strconv.Itoa(round))
					if err != nil {
						return err
					}
					if changed, err := result.RowsAffected(); err != nil || changed != 1 {
						t.Errorf("round %d: changed %d, %v", round, changed, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := count(t, db.Reader()); got != 15 {
			t.Errorf("%d rows, want 15", got)
		}
	})
}
