package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// The schemas of both engines hold the same tables, columns, nullability and
// indexes.
func TestSchemasOfBothEnginesAreEqual(t *testing.T) {
	t.Parallel()
	sqlite := strings.Join(sqliteSchema(t, dbtest.SQLite(t)), "\n")
	postgres := strings.Join(postgresSchema(t, dbtest.Open(t, dbtest.PostgresConfig(t))), "\n")
	if sqlite != postgres {
		t.Errorf("SQLite:\n%s\n\nPostgreSQL:\n%s", sqlite, postgres)
	}
}

func lines(t *testing.T, db *sqldb.DB, query string) []string {
	t.Helper()
	rows, err := db.Writer().QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var result []string
	for rows.Next() {
		var table, name, kind string
		var required bool
		if err := rows.Scan(&table, &name, &kind, &required); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(table, "river_") || strings.HasPrefix(table, "goose_") || strings.HasPrefix(table, "sqlite_") {
			continue
		}
		result = append(result, fmt.Sprintf("%s.%s %s required=%t", table, name, kind, required))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(result)
	return result
}

func sqliteSchema(t *testing.T, db *sqldb.DB) []string {
	t.Helper()
	return append(lines(t, db, `SELECT m.name, c.name, CASE upper(c.type) WHEN 'INTEGER' THEN 'int' WHEN 'BLOB' THEN 'bytes' ELSE lower(c.type) END, c."notnull" OR c.pk > 0
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`),
		lines(t, db, `SELECT m.tbl_name, (SELECT group_concat(name, ',') FROM (SELECT COALESCE(name, '()') AS name FROM pragma_index_info(m.name) ORDER BY seqno)), 'index', 1
		FROM sqlite_master m WHERE m.type = 'index' AND m.sql IS NOT NULL`)...)
}

func postgresSchema(t *testing.T, db *sqldb.DB) []string {
	t.Helper()
	return append(lines(t, db, `SELECT table_name, column_name, CASE data_type WHEN 'bigint' THEN 'int' WHEN 'bytea' THEN 'bytes' ELSE data_type END, is_nullable = 'NO'
		FROM information_schema.columns WHERE table_schema = 'public'`),
		lines(t, db, `SELECT t.relname, (SELECT string_agg(COALESCE(a.attname, '()'), ',' ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(attnum, n)
			LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum AND k.attnum > 0), 'index', true
		FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
		WHERE n.nspname = 'public' AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)`)...)
}
