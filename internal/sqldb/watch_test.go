package sqldb

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func openFresh(t *testing.T) (*DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Writer().ExecContext(t.Context(), "CREATE TABLE x (v TEXT)"); err != nil {
		t.Fatal(err)
	}
	return db, path
}

// Once a sync has failed, the connection takes no statement of anybody.
func TestBrokenWriterTakesNothing(t *testing.T) {
	t.Parallel()
	db, _ := openFresh(t)
	stmt, err := db.Writer().PrepareContext(t.Context(), "INSERT INTO x VALUES ('prepared')")
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	underWay, err := db.Writer().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := underWay.ExecContext(t.Context(), "INSERT INTO x VALUES ('under way')"); err != nil {
		t.Fatal(err)
	}
	db.markBroken(errors.New("a sync failed"))
	if err := underWay.Commit(); !errors.Is(err, ErrBroken) {
		t.Errorf("commit: %v", err)
	}
	if _, err := db.Writer().ExecContext(t.Context(), "INSERT INTO x VALUES ('direct')"); !errors.Is(err, ErrBroken) {
		t.Errorf("direct: %v", err)
	}
	if _, err := stmt.ExecContext(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("prepared: %v", err)
	}
	var v string
	if err := db.Writer().QueryRowContext(t.Context(), "INSERT INTO x VALUES ('returned') RETURNING v").Scan(&v); !errors.Is(err, ErrBroken) {
		t.Errorf("returning: %v", err)
	}
	if err := db.InTx(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrBroken) {
		t.Errorf("transaction: %v", err)
	}
	var n int
	if err := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM x").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// The log is written back again and again, by whichever way rows are written.
func TestLogStaysShort(t *testing.T) {
	t.Parallel()
	db, path := openFresh(t)
	write := map[string]func() error{
		"direct": func() error {
			_, err := db.Writer().ExecContext(t.Context(), "INSERT INTO x VALUES (zeroblob(20000))")
			return err
		},
		"returning": func() error {
			var n int
			return db.Writer().QueryRowContext(t.Context(), "INSERT INTO x VALUES (zeroblob(20000)) RETURNING 1").Scan(&n)
		},
		"transaction": func() error {
			return db.InTx(t.Context(), func(tx *Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO x VALUES (zeroblob(20000))")
				return err
			})
		},
	}
	for name, f := range write {
		if _, err := db.Writer().ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		for range 5 * checkpointEvery {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if limit := int64(2 * checkpointEvery * 8 * 4096); info.Size() > limit {
			t.Errorf("%s: the log has %d bytes, want at most %d", name, info.Size(), limit)
		}
	}
}

// A write-ahead log that a long read and a burst of writes made large is given
// back, although other reads go on, and no writer waits for them.
func TestLogShrinks(t *testing.T) {
	t.Parallel()
	db, path := openFresh(t)
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	write := func(n int) {
		t.Helper()
		if _, err := db.Writer().ExecContext(t.Context(), "INSERT INTO x VALUES (zeroblob($1))", n); err != nil {
			t.Fatal(err)
		}
	}
	read, err := db.read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := read.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM x").Scan(&n); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		write(1 << 20)
	}
	for range 2 * checkpointEvery {
		write(1) // checkpoints are due, and the reader is in their way
	}
	if size() < 40<<20 {
		t.Fatalf("the log has %d bytes, want what the reader needs", size())
	}
	if err := read.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range checkpointEvery {
		write(1)
	}
	if size() > maxLog {
		t.Errorf("the log has %d bytes, want at most %d", size(), maxLog)
	}
	var patience int
	if err := db.Writer().QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&patience); err != nil || patience != busyPatience {
		t.Errorf("writers wait %d ms, %v", patience, err)
	}
}
