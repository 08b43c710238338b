package app_test

import (
	"database/sql"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// small are the tables that do not grow with use.
var small = []string{"settings", "device_signing_keys", "setup_tokens", "code_keys", "audit_keys"}

// whole are the statements that may read a table whole or sort what they read,
// and why.
var whole = map[string]string{
	"identity.searchUsers":  "sorts what the beginning of an address or a name finds",
	"certs.reissuesDue":     "sorts by turns of users the certificates that devices wait for, the 5,000 longest overdue at the most",
	"certs.usersDue":        "its plan names the list of users that it makes, of 5,000 at the most, and no table",
	"issuance.challengesOf": "sorts the challenges of one order: as many as it has names, a hundred at the most",
}

// Every statement of the program finds its rows through an index, in tables of
// a million rows as in empty ones, and no list is sorted after it was read.
func TestEveryStatementUsesAnIndex(t *testing.T) {
	t.Parallel()
	all := statements(t)
	used := map[string]bool{}
	t.Run("sqlite", func(t *testing.T) {
		db := dbtest.SQLite(t)
		for _, s := range all {
			if complaint := sqlitePlan(t, db.Writer(), s); complaint != "" {
				used[s.name] = true
				if whole[s.name] == "" {
					t.Errorf("%s:\n%s\n%s", s.name, s.text, complaint)
				}
			}
		}
	})
	t.Run("postgres", func(t *testing.T) {
		db := dbtest.Open(t, dbtest.PostgresConfig(t))
		for _, s := range all {
			if complaint := postgresPlan(t, db, s); complaint != "" {
				used[s.name] = true
				if whole[s.name] == "" {
					t.Errorf("%s:\n%s\n%s", s.name, s.text, complaint)
				}
			}
		}
	})
	for name := range whole {
		if !used[name] {
			t.Errorf("%s needs no exception any more", name)
		}
	}
}

var scan = regexp.MustCompile(`^SCAN (\w+)`)

// sqlitePlan returns what is wrong with the plan.
func sqlitePlan(t *testing.T, db *sql.DB, s statement) string {
	t.Helper()
	args := make([]any, s.parameters())
	for i := range args {
		args[i] = 1
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+sqldb.SQLite.ByBytes(s.text), args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, s.text)
	}
	defer rows.Close()
	var plan []string
	bad := false
	for rows.Next() {
		var a, b, c, line any
		if err := rows.Scan(&a, &b, &c, &line); err != nil {
			t.Fatal(err)
		}
		text := line.(string)
		plan = append(plan, text)
		if m := scan.FindStringSubmatch(text); m != nil && text != "SCAN CONSTANT ROW" && !slices.Contains(small, m[1]) || strings.Contains(text, "USE TEMP B-TREE") {
			bad = true
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !bad {
		return ""
	}
	return strings.Join(plan, "\n")
}

// node is a step of PostgreSQL's plan, in its words.
type node struct {
	Type     string  `json:"Node Type"`     //nolint:tagliatelle // PostgreSQL's
	Relation string  `json:"Relation Name"` //nolint:tagliatelle // PostgreSQL's
	Cond     *string `json:"Index Cond"`    //nolint:tagliatelle // PostgreSQL's
	Plans    []node
}

// postgresPlan returns what is wrong with the generic plan. Scans and sorts are
// switched off, so that one that is left is one without an index.
func postgresPlan(t *testing.T, db *sqldb.DB, s statement) string {
	t.Helper()
	conn, err := db.Writer().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	values := ""
	if n := s.parameters(); n > 0 {
		values = "(" + strings.TrimSuffix(strings.Repeat("NULL,", n), ",") + ")"
	}
	for _, command := range []string{
		"SET enable_seqscan = off", "SET enable_sort = off", "SET enable_bitmapscan = off", "SET plan_cache_mode = force_generic_plan",
		"PREPARE looked_at AS " + s.text,
	} {
		if _, err := conn.ExecContext(t.Context(), command); err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, command)
		}
	}
	var text string
	if err := conn.QueryRowContext(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE looked_at"+values).Scan(&text); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	if _, err := conn.ExecContext(t.Context(), "DEALLOCATE looked_at"); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if plans[0].Plan.wrong() {
		return text
	}
	return ""
}

func (n node) wrong() bool {
	scans := strings.HasSuffix(n.Type, "Scan") && n.Relation != "" && n.Cond == nil && !slices.Contains(small, n.Relation)
	return scans || n.Type == "Sort" || slices.ContainsFunc(n.Plans, node.wrong)
}

// A row that others refer to is deleted without reading the others whole:
// every foreign key begins an index.
func TestForeignKeysAreIndexed(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t).Writer()
	keys := apptest.Column(t, db, `SELECT m.name || ' ' || group_concat(f."from") FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
		WHERE m.type = 'table' AND m.name NOT LIKE 'river%' GROUP BY m.name, f.id`)
	indexes := apptest.Column(t, db, `SELECT m.name || ' ' || (SELECT group_concat(name) FROM (SELECT i.name FROM pragma_index_info(l.name) i ORDER BY i.seqno))
		FROM sqlite_schema m, pragma_index_list(m.name) l WHERE m.type = 'table' AND l.partial = 0`)
	indexes = append(indexes, apptest.Column(t, db, `SELECT m.name || ' ' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.pk = 1`)...)
	if len(keys) < 10 {
		t.Fatalf("only %d foreign keys", len(keys))
	}
	for _, key := range keys {
		if !slices.ContainsFunc(indexes, func(index string) bool { return strings.HasPrefix(index+",", key+",") }) {
			t.Errorf("no index begins with the foreign key %s", key)
		}
	}
}
