package certs

import (
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestPlans: every list has an index that serves it at a million rows.
func TestPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		conn, err := db.Writer().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		explain := "EXPLAIN QUERY PLAN "
		if db.Dialect() == sqldb.Postgres {
			explain = "EXPLAIN "
			for _, off := range []string{"enable_seqscan", "enable_sort", "enable_bitmapscan"} { // empty tables are read whole otherwise
				if _, err := conn.ExecContext(t.Context(), "SET "+off+" = off"); err != nil {
					t.Fatal(err)
				}
			}
		}
		for query, args := range map[string][]any{
			certificatesOf:             {1, 100, 0},
			countCertificates:          {1},
			certificatesOfAccount:      {1, 100, 0},
			countCertificatesOfAccount: {1},
			certificatesOfDevice:       {1, 100, 0},
			countCertificatesOfDevice:  {1},
			certificatesDue:            {1, 1, 100},
			certificateByID:            {1, 1},
			deployable:                 {1, 1, 1},
			assignedDevices:            {1},
			assignedTo:                 {1},
			dropWraps:                  {1},
			dropDeviceWraps:            {1},
		} {
			rows, err := conn.QueryContext(t.Context(), explain+query, args...) //nolint:rowserrcheck // readPlan does
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			plan := readPlan(t, rows, db.Dialect())
			for _, bad := range []string{"SCAN ", "USE TEMP B-TREE", "Seq Scan", "Sort "} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s\n%s", query, plan)
				}
			}
		}
	})
}

func readPlan(t *testing.T, rows interface {
	Next() bool
	Scan(dest ...any) error
	Close() error
	Err() error
}, dialect sqldb.Dialect,
) string {
	t.Helper()
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var a, b, c any
		var line string
		dest := []any{&line}
		if dialect == sqldb.SQLite {
			dest = []any{&a, &b, &c, &line}
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
