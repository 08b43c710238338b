package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Every query that could be long walks an index.
func TestQueryPlans(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for query, index := range map[string]string{
			listWebhooks:    "service_webhooks_user",
			countWebhooks:   "service_webhooks_user",
			listTargets:     "service_webhooks_user",
			listOverdue:     "service_webhooks_due",
			listDeliveries:  "webhook_deliveries_webhook",
			countDeliveries: "webhook_deliveries_webhook",
			dueDeliveries:   "webhook_deliveries_due",
			nextAttempt:     "webhook_deliveries_due",
			anyHeld:         "webhook_deliveries_held",
			releaseHeld:     "webhook_deliveries_held",
			pendingTest:     "webhook_deliveries_", // head or due: on an empty table they cost the same
			pruneDeliveries: "webhook_deliveries_finished",
		} {
			name, plan := queryPlan(t, db, query)
			if !strings.Contains(plan, index) {
				t.Errorf("%s does not use %s:\n%s", name, index, plan)
			}
			for _, scan := range []string{"SCAN ", "Seq Scan", "TEMP B-TREE"} {
				if db.Dialect() == sqldb.SQLite && strings.Contains(plan, scan) && !strings.Contains(plan, "SCAN CONSTANT ROW") || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%s: %s", name, plan)
					break
				}
			}
		}
	})
}

func queryPlan(t *testing.T, db *sqldb.DB, query string) (name, plan string) {
	t.Helper()
	name, query, _ = strings.Cut(query, "\n")
	explain, args := "EXPLAIN QUERY PLAN ", []any{}
	for n := 1; strings.Contains(query, fmt.Sprintf("$%d", n)); n++ {
		args = append(args, 1)
		if strings.Contains(query, "event_key = $2") && n == 2 {
			args[1] = EventIssued
		}
	}
	err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		if db.Dialect() == sqldb.Postgres {
			explain = "EXPLAIN "
			// Empty tables are cheaper to scan; what matters is that an index serves.
			for _, setting := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
				if _, err := tx.ExecContext(t.Context(), "SET LOCAL "+setting+" = off"); err != nil {
					return err
				}
			}
		}
		rows, err := tx.QueryContext(t.Context(), explain+query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		var lines strings.Builder
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				return err
			}
			fmt.Fprintln(&lines, *values[len(values)-1].(*any))
		}
		plan += lines.String()
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return name, plan
}
