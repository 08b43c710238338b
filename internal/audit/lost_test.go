package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/seal"
)

// keepers are the tables whose rows say that there is a log.
var keepers = map[string]string{
	"audit_log": columns, "audit_heads": headColumns, "audit_keys": "id, key_sealed, created_at", "settings": "name, value",
	"users": "id, email, name, country_of_residence, password, status, roles, created_at, updated_at",
}

var keeperNames = []string{"audit_log", "audit_heads", "audit_keys", "settings", "users"}

func (h *harness) copyOf(suffix string) {
	h.t.Helper()
	for table, columns := range keepers {
		h.must("CREATE TABLE " + table + suffix + " AS SELECT " + columns + " FROM " + table)
	}
}

func (h *harness) putBack(suffix string) {
	h.t.Helper()
	for table, columns := range keepers {
		h.must("DELETE FROM " + table)
		h.must("INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM " + table + suffix)
	}
}

func (h *harness) userRow(id int) {
	h.t.Helper()
	h.must(fmt.Sprintf("INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at) VALUES (%d, '%d@example.org', '', '', '', 'ACTIVE', '[]', 1, 1)", id, id))
}

// found reports how a start of a node with the stamp, and a verification after
// it, take the database: "" means that neither noticed anything.
func (h *harness) found(stamp string) string {
	h.t.Helper()
	l, err := h.reopen(stamp)
	if gone, ok := errors.AsType[*audit.Lost](err); ok {
		if !strings.Contains(gone.Error(), "certharbor audit accept") {
			h.t.Errorf("%v does not say what to do", gone)
		}
		return "start: " + gone.What
	}
	if err != nil {
		h.t.Fatal(err)
	}
	// Work goes on: anybody can cause a refused sign-in of each user.
	h.Log = l
	h.record(h.t.Context(), "session.sign_in_refused", 1, 2, 0)
	_, err = l.Verify(h.t.Context(), audit.Verification{Users: ids(1, 2)})
	if p, ok := errors.AsType[*audit.Problem](err); ok {
		return "verify: " + p.Error()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return ""
}

// ids lists users.
func ids(users ...int64) func(context.Context, int64, int64) ([]int64, error) {
	return func(_ context.Context, after, _ int64) (list []int64, _ error) {
		for _, id := range users {
			if id > after {
				list = append(list, id)
			}
		}
		return list, nil
	}
}

// The removal of anything is found, the whole of it included: every combination
// of the tables that say that there is a log, on the node that has seen it and
// on one that starts for the first time. A database without anything left is a
// new one to a node that has never seen it.
func TestWipes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.userRow(1)
		h.userRow(2)
		h.fill()
		if err := h.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen, err := os.ReadFile(h.deps.Stamp)
		if err != nil {
			t.Fatal(err)
		}
		h.defenceless()
		h.copyOf("_kept")
		stamp := h.deps.Stamp
		for wiped := 1; wiped < 1<<len(keeperNames); wiped++ {
			var tables []string
			for i, table := range keeperNames {
				if wiped&(1<<i) != 0 {
					tables = append(tables, table)
				}
			}
			everything := len(tables) == len(keeperNames)
			set := strings.Join(tables, " ")
			for _, node := range []struct{ name, stamp string }{{"the node that has seen it", stamp}, {"a new node", ""}} {
				if err := os.WriteFile(stamp, seen, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, table := range tables {
					h.must("DELETE FROM " + table)
				}
				fresh := node.stamp == ""
				// Users are not the log, and the statement alone, without which the log
				// is what it was, is made good by a node that has never seen it.
				harmless := set == "users" || fresh && (everything || set == "settings" || set == "settings users")
				if what := h.found(node.stamp); (what == "") != harmless {
					t.Errorf("%v emptied, on %s: found %q", tables, node.name, what)
				}
				h.putBack("_kept")
			}
		}
		if what := h.found(stamp); what != "" {
			t.Errorf("put back: %s", what)
		}
	})
}

// Whatever the keepers are exchanged for is found as well.
func TestExchanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.userRow(1)
		h.copyOf("_older")
		h.fill()
		if err := h.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.defenceless()
		h.copyOf("_kept")
		seen, err := os.ReadFile(h.deps.Stamp)
		if err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			do   func()
			want string
		}{
			"garbage for the key":                 {func() { h.must("UPDATE audit_keys SET key_sealed = mac FROM audit_log") }, "start: its key was exchanged"},
			"garbage for the statement":           {func() { h.must("UPDATE settings SET value = mac FROM audit_log") }, "start: the statement"},
			"another statement":                   {func() { h.must("UPDATE settings SET value = key_sealed FROM audit_keys") }, "start: the statement"},
			"no statement":                        {func() { h.must("DELETE FROM settings") }, "start: the statement that it has a key is gone"},
			"an older copy of the whole database": {func() { h.putBack("_older") }, "verify: nobody's audit log, chain"},
			"a stamp of another master key":       {func() { h.stampOf(t) }, "start: the file"},
			"a damaged stamp":                     {func() { h.stampText("x") }, "start: the file"},
			"an empty stamp":                      {func() { h.stampText("") }, "start: the file"},
		} {
			tt.do()
			if what := h.found(h.deps.Stamp); !strings.HasPrefix(what, tt.want) {
				t.Errorf("%s: found %q, want %q", name, what, tt.want)
			}
			h.putBack("_kept")
			h.stampText(string(seen))
		}
	})
}

func (h *harness) stampText(text string) {
	h.t.Helper()
	if err := os.WriteFile(h.deps.Stamp, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// stampOf replaces the stamp by one of another database and master key.
func (h *harness) stampOf(t *testing.T) {
	t.Helper()
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	if err := audit.WriteStamp(keys, h.deps.Stamp); err != nil {
		t.Fatal(err)
	}
}

// A log that was set back is told at the start and every time after it, and the
// server works on; accepting it is recorded, and ends that.
func TestAccept(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.userRow(1)
		h.fill()
		h.copyOf("_older")
		for range 20 {
			h.record(t.Context(), "thing.refuse", 0)
		}
		h.Start(t.Context(), "test")
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.logged.Len() != 0 {
			t.Errorf("logged %s", &h.logged)
		}
		h.defenceless()
		h.putBack("_older")
		l, err := h.reopen(h.deps.Stamp)
		if err != nil {
			t.Fatal(err)
		}
		l.Start(t.Context(), "test")
		if err := l.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := h.logged.String(); strings.Count(got, "the audit log was set back or changed") != 3 || !strings.Contains(got, "certharbor audit accept") {
			t.Errorf("logged %s", got)
		}
		accept := func(want bool) {
			t.Helper()
			accepted, err := audit.Accept(t.Context(), h.deps, "restored", ids(1, 2))
			if err != nil || (accepted.What != "") != want {
				t.Fatalf("%+v, %v", accepted, err)
			}
		}
		accept(true)
		if what := h.found(h.deps.Stamp); what != "" {
			t.Errorf("after it was accepted: %s", what)
		}
		accept(false)
		if n := h.number("SELECT COUNT(*) FROM audit_log WHERE action = 'audit.accept'"); n != 1 {
			t.Errorf("recorded %d times", n)
		}

		// A new database in the old data folder, with users from elsewhere.
		for _, table := range []string{"audit_log", "audit_heads", "audit_keys", "settings"} {
			h.must("DELETE FROM " + table)
		}
		if what := h.found(h.deps.Stamp); what == "" {
			t.Error("nothing was found")
		}
		accept(true)
		if what := h.found(h.deps.Stamp); what != "" {
			t.Errorf("after it was accepted: %s", what)
		}
	})
}

// Nodes that start for the first time at the same moment agree on one key.
func TestFirstStarts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.defenceless()
		for _, table := range []string{"audit_log", "audit_heads", "audit_keys", "settings"} {
			h.must("DELETE FROM " + table)
		}
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				_, err := h.reopen("")
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		h.userRow(1)
		h.userRow(2)
		if what := h.found(""); what != "" {
			t.Error(what)
		}
	})
}
