package sqldb_test

import (
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// What was there when a transaction looked may be gone when it refers to it: a
// repeat finds that out. SQLite has one writer, so nothing goes in between.
func TestForeignKeyThatBreaksIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		want := map[sqldb.Dialect]int{sqldb.SQLite: 1, sqldb.Postgres: 2}[db.Dialect()]
		runs := 0
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			runs++
			_, err := tx.ExecContext(t.Context(), "INSERT INTO certificate_assignments (device_id, cert_id, created_at) VALUES (1, 1, 1)")
			return err
		})
		if !sqldb.Is(err, sqldb.ErrForeignKey) || runs != want {
			t.Errorf("%d runs, %v", runs, err)
		}
	})
}
