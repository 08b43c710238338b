package audit_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/audit"
)

// tampering is one way to change the log, and what verifying says to it.
type tampering struct {
	do   func(h *harness)
	want string // how the problem begins
}

func statements(list ...string) func(*harness) {
	return func(h *harness) {
		h.t.Helper()
		for _, statement := range list {
			h.must(statement)
		}
	}
}

const (
	columns     = "user_id, lane, seq, at, actor, action, object, detail, request_id, ip, user_agent, mac"
	headColumns = "user_id, lane, seq, mac, seal"
	moved       = "at, actor, action, object, detail, request_id, ip, user_agent, mac"
)

// tamperings work on a log with five entries of user 1, five of user 2 and five
// of nobody.
func tamperings() map[string]tampering {
	all := map[string]tampering{
		"an entry in the middle removed": {statements("DELETE FROM audit_log WHERE user_id = 1 AND seq = 3"), "the audit log of user 1, entry 3: is missing"},
		"the first entry removed":        {statements("DELETE FROM audit_log WHERE user_id = 1 AND seq = 1"), "the audit log of user 1, entry 1: is missing"},
		"the newest entries removed":     {statements("DELETE FROM audit_log WHERE user_id = 1 AND seq > 3"), "the audit log of user 1, entry 4: is missing, and all after it up to 5"},
		"removed, and the others moved up": {statements(
			"DELETE FROM audit_log WHERE user_id = 1 AND seq = 3", "UPDATE audit_log SET seq = 3 WHERE user_id = 1 AND seq = 4", "UPDATE audit_log SET seq = 4 WHERE user_id = 1 AND seq = 5",
		), "the audit log of user 1, entry 3: was changed"},
		"the newest removed, and the head set back": {statements(
			"DELETE FROM audit_log WHERE user_id = 1 AND seq = 5",
			"UPDATE audit_heads SET seq = 4, mac = (SELECT mac FROM audit_log WHERE user_id = 1 AND seq = 4) WHERE user_id = 1",
		), "the audit log of user 1: its head was changed"},
		"all entries of a user removed": {statements("DELETE FROM audit_log WHERE user_id = 1"), "the audit log of user 1, entry 1: is missing, and all after it up to 5"},
		"a head removed":                {statements("DELETE FROM audit_heads WHERE user_id = 1"), "the audit log of user 1: its head is missing"},
		"a user's log removed as a whole": {statements(
			"DELETE FROM audit_log WHERE user_id = 1", "DELETE FROM audit_heads WHERE user_id = 1",
		), "the audit log of user 1: was removed as a whole"},
		"removed as a whole, and begun anew": {func(h *harness) {
			statements("DELETE FROM audit_log WHERE user_id = 1", "DELETE FROM audit_heads WHERE user_id = 1")(h)
			h.record(h.t.Context(), "thing.do", 1)
		}, "nobody's audit log"},
		"a chain of nobody's removed as a whole": {statements(
			"DELETE FROM audit_log WHERE user_id = 0 AND lane = 3", "DELETE FROM audit_heads WHERE user_id = 0 AND lane = 3",
		), "nobody's audit log, chain 3: its head is missing"},
		"the end removed, and the log goes on": {func(h *harness) {
			statements("DELETE FROM audit_log WHERE user_id = 1 AND seq = 5", "UPDATE audit_heads SET seq = 4, mac = (SELECT mac FROM audit_log WHERE user_id = 1 AND seq = 4) WHERE user_id = 1")(h)
			h.record(h.t.Context(), "thing.do", 1)
		}, "the audit log of user 1: its head was changed"},
		"the head removed, and the log goes on": {func(h *harness) {
			statements("DELETE FROM audit_heads WHERE user_id = 1")(h)
			h.record(h.t.Context(), "thing.do", 1)
		}, "the audit log of user 1: its head was changed"},
		"an entry added behind the head": {statements(
			"INSERT INTO audit_log (" + columns + ") SELECT user_id, lane, 6, " + moved + " FROM audit_log WHERE user_id = 1 AND seq = 5",
		), "the audit log of user 1, entry 6: stands behind the head, which is at 5"},
		"an entry inserted": {statements(
			"UPDATE audit_log SET seq = 6 WHERE user_id = 1 AND seq = 5",
			"INSERT INTO audit_log ("+columns+") SELECT user_id, lane, 5, "+moved+" FROM audit_log WHERE user_id = 1 AND seq = 4",
			"UPDATE audit_heads SET seq = 6 WHERE user_id = 1",
		), "the audit log of user 1: its head was changed"},
		"two entries exchanged": {statements(
			"UPDATE audit_log SET seq = 60 WHERE user_id = 1 AND seq = 3", "UPDATE audit_log SET seq = 3 WHERE user_id = 1 AND seq = 4", "UPDATE audit_log SET seq = 4 WHERE user_id = 1 AND seq = 60",
		), "the audit log of user 1, entry 3: was changed"},
		"an entry of one user given to another": {statements(
			"DELETE FROM audit_log WHERE user_id = 1 AND seq = 3",
			"INSERT INTO audit_log ("+columns+") SELECT 1, lane, seq, "+moved+" FROM audit_log WHERE user_id = 2 AND seq = 3",
		), "the audit log of user 1, entry 3: was changed"},
		"a whole log given to another": {statements(
			"DELETE FROM audit_log WHERE user_id = 1", "UPDATE audit_log SET user_id = 1 WHERE user_id = 2",
		), "the audit log of user 1, entry 1: was changed"},
		"a log with its head given to nobody known": {statements(
			"UPDATE audit_log SET user_id = 3 WHERE user_id = 2", "UPDATE audit_heads SET user_id = 3 WHERE user_id = 2",
		), "the audit log of user 3: its head was changed"},
		"a further chain of a user": {statements(
			"INSERT INTO audit_log (" + columns + ") SELECT user_id, 1, seq, " + moved + " FROM audit_log WHERE user_id = 1",
		), "the audit log of user 1: has a chain 1"},
		"a further chain of nobody": {statements(
			"INSERT INTO audit_log (" + columns + ") SELECT 0, 99, seq, " + moved + " FROM audit_log WHERE user_id = 1",
		), "nobody's audit log, chain 99: there is no such chain"},
	}
	for column, value := range map[string]string{
		"at": "at + 1", "actor": "'session 8'", "action": "'thing.do2'", "object": "'thing 2'", "detail": "'{}'", "request_id": "'x'",
		"ip": "'192.0.2.1'", "user_agent": "'curl'", "mac": "(SELECT mac FROM audit_log WHERE user_id = 1 AND seq = 2)",
	} {
		all["another "+column] = tampering{statements("UPDATE audit_log SET " + column + " = " + value + " WHERE user_id = 1 AND seq = 3"), "the audit log of user 1, entry 3: was changed"}
	}
	for column, value := range map[string]string{"seq": "4", "mac": "seal", "seal": "mac"} {
		all["another "+column+" of a head"] = tampering{statements("UPDATE audit_heads SET " + column + " = " + value + " WHERE user_id = 1"), "the audit log of user 1: its head was changed"}
	}
	return all
}

func (h *harness) fill() {
	h.t.Helper()
	for range 5 {
		h.record(session(h.t, 1), "thing.do", 1)
		h.record(session(h.t, 2), "thing.do", 2)
		h.record(h.t.Context(), "thing.refuse", 0)
	}
}

// Whoever has the database can change it, and is found out.
func TestTampering(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.fill()
		h.defenceless()
		h.must("CREATE TABLE kept_log AS SELECT " + columns + " FROM audit_log")
		h.must("CREATE TABLE kept_heads AS SELECT " + headColumns + " FROM audit_heads")
		for name, tt := range tamperings() {
			if v := h.whole(); v.Entries != 17 {
				t.Fatalf("%d entries before %s", v.Entries, name)
			}
			tt.do(h)
			if p := h.problem(audit.Verification{}); !strings.HasPrefix(p.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", name, p, tt.want)
			}
			statements(
				"DELETE FROM audit_log", "INSERT INTO audit_log ("+columns+") SELECT "+columns+" FROM kept_log",
				"DELETE FROM audit_heads", "INSERT INTO audit_heads ("+headColumns+") SELECT "+headColumns+" FROM kept_heads",
			)(h)
		}
	})
}

// Rows and head together set back to what they were is what anchors are for.
func TestAnchors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.fill()
		early := h.whole().Anchors
		h.defenceless()
		h.must("CREATE TABLE kept AS SELECT " + headColumns + " FROM audit_heads WHERE user_id = 1")
		h.record(session(t, 1), "thing.do", 1)
		late := h.whole(early...).Anchors
		h.must("DELETE FROM audit_log WHERE user_id = 1 AND seq = 6")
		h.must("DELETE FROM audit_heads WHERE user_id = 1")
		h.must("INSERT INTO audit_heads (" + headColumns + ") SELECT " + headColumns + " FROM kept")
		h.whole(early...)
		if p := h.problem(audit.Verification{Anchors: late}); p.UserID != 1 || p.Seq != 6 {
			t.Error(p)
		}
		// It goes on from there: the number is taken again, the entry is not it.
		h.record(session(t, 1), "thing.other", 1)
		if p := h.problem(audit.Verification{Anchors: late}); p.UserID != 1 || p.Seq != 6 {
			t.Error(p)
		}
		read, err := audit.ReadAnchors(bytes.NewReader(audit.FormatAnchors(early)))
		if err != nil || len(read) != len(early) || read[0] != early[0] {
			t.Errorf("%v, %v", read, err)
		}
		for _, bad := range []string{"1 0 5", "1 0 x 00", "\n"} {
			if _, err := audit.ReadAnchors(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}

// A user who exists has a log.
func TestUserWithoutLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.fill()
		users := func(_ context.Context, after, _ int64) ([]int64, error) {
			if after >= 3 {
				return nil, nil
			}
			return []int64{after + 1}, nil
		}
		if p := h.problem(audit.Verification{Users: users}); p.UserID != 3 {
			t.Error(p)
		}
		h.record(session(t, 3), "user.create", 3)
		if _, err := h.Verify(t.Context(), audit.Verification{Users: users}); err != nil {
			t.Error(err)
		}
	})
}

// Both databases refuse what is no appending.
func TestAppendOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.fill()
		for _, statement := range []string{
			"UPDATE audit_log SET actor = 'x' WHERE user_id = 1 AND seq = 3", "DELETE FROM audit_log WHERE user_id = 1 AND seq = 3",
			"UPDATE audit_heads SET seq = 4 WHERE user_id = 1", "UPDATE audit_heads SET mac = seal WHERE user_id = 1", "DELETE FROM audit_heads WHERE user_id = 1",
			"UPDATE audit_heads SET user_id = 5, seq = 9 WHERE user_id = 1", "DELETE FROM audit_keys",
		} {
			if err := h.exec(statement); err == nil || !strings.Contains(err.Error(), "the audit log is append-only") {
				t.Errorf("%s: %v", statement, err)
			}
		}
		for _, table := range []string{"audit_log", "audit_heads", "audit_keys"} {
			if err := h.exec("TRUNCATE " + table); err == nil {
				t.Errorf("%s could be truncated", table)
			}
		}
		h.whole()
	})
}
