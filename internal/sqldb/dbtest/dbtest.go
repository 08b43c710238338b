package dbtest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/migrate"
)

// Each runs test on SQLite and on PostgreSQL as parallel subtests.
func Each(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	for name, config := range map[string]func(testing.TB) sqldb.Config{"sqlite": SQLiteConfig, "postgres": PostgresConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Open(t, config(t)))
		})
	}
}

// SQLite opens a migrated SQLite database, for tests of one engine.
func SQLite(t testing.TB) *sqldb.DB { return Open(t, SQLiteConfig(t)) }

// Open opens the database and closes it at the end of the test.
func Open(t testing.TB, config sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "certharbor-dbtest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "template.db")
	if err := prepare(sqldb.Config{Path: path}); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// SQLiteConfig makes a migrated SQLite database in the test's folder.
func SQLiteConfig(t testing.TB) sqldb.Config {
	t.Helper()
	template, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "certharbor.db")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		t.Fatal(err)
	}
	return sqldb.Config{Path: path}
}

// prepare migrates the database that config names and closes it, which on
// SQLite leaves one whole file without a log.
func prepare(config sqldb.Config) error {
	ctx := context.Background()
	db, err := sqldb.Open(ctx, config)
	if err != nil {
		return err
	}
	err = migrate.Up(ctx, db, func(ctx context.Context) error { return jobs.Migrate(ctx, db) })
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return err
}
