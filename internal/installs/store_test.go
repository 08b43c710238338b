package installs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func TestDeviceGone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		h.put(t, twoSteps)
		h.exec(t, "DELETE FROM devices WHERE id = $1", 1)
		if n := h.count(t, "SELECT (SELECT COUNT(*) FROM install_configs) + (SELECT COUNT(*) FROM install_config_versions)"); n != 0 {
			t.Errorf("%d rows left", n)
		}
		want[any](t, h.call(t, asUser, "PUT", configPath, twoSteps), 404)
	})
}

// The largest configuration that is accepted is served and stays under the 4
// MiB of wire.md 1.1.
func TestLargestConfig(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		var items []map[string]any
		for range 12 {
			items = append(items, map[string]any{"type": "exec", "cmd": strings.Repeat("x", maxText)})
		}
		h.put(t, map[string]any{"installs": items, "after_update_script": strings.Repeat("\u00e9", 60<<10)})
		if w := h.call(t, asDevice, "GET", selfPath, nil); w.Code != 200 || w.Body.Len() > 4<<20 {
			t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
		}
		w := h.call(t, asUser, "PUT", configPath, `{"installs":[{"type":"exec","cmd":"a","verify":{"x":"`+"\xff"+`"}}]}`)
		want[any](t, w, 400)
	})
}

// The list of versions is read along its index.
func TestPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, query := range []struct {
			text string
			args []any
		}{
			{getConfig, []any{1}},
			{getVersion, []any{1, 1}},
			{listVersions, []any{1, 100, 0}},
			{countVersions, []any{1}},
			{sizes, []any{1, 50}},
			{pruneVersions, []any{1, 5}},
			{forgettable, []any{1, 100, 1000}},
			{makeConfig, []any{1, 5}},
		} {
			var plan strings.Builder
			err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				prefix := "EXPLAIN QUERY PLAN "
				if db.Dialect() == sqldb.Postgres {
					prefix = "EXPLAIN "
					if _, err := tx.ExecContext(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"); err != nil {
						return err
					}
				}
				rows, err := tx.QueryContext(t.Context(), prefix+query.text, query.args...)
				if err != nil {
					return err
				}
				defer rows.Close()
				columns, _ := rows.Columns()
				for rows.Next() {
					values := make([]any, len(columns))
					for i := range values {
						values[i] = new(any)
					}
					if err := rows.Scan(values...); err != nil {
						return err
					}
					fmt.Fprintln(&plan, *values[len(values)-1].(*any))
				}
				return rows.Err()
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"SCAN", "Seq Scan", "TEMP B-TREE", "Sort"} {
				if strings.Contains(plan.String(), bad) {
					t.Errorf("%s\n%s", query.text, plan.String())
				}
			}
		}
	})
}
