package audit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// harness is a log on a database of its own.
type harness struct {
	*audit.Log
	t   testing.TB
	db  *sqldb.DB
	now time.Time

	deps   audit.Deps
	logged bytes.Buffer // of the server
}

func anyUser(ctx context.Context, q sqldb.Querier) (used bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM users").Scan(&used)
	return used, err
}

func build(t testing.TB, db *sqldb.DB) *harness {
	t.Helper()
	h := &harness{t: t, db: db, now: time.UnixMilli(1_800_000_000_000)}
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	h.deps = audit.Deps{DB: db, Keys: keys, Now: func() time.Time { return h.now }, Log: slog.New(slog.NewTextHandler(&h.logged, nil)), Stamp: filepath.Join(t.TempDir(), "audit.stamp"), Used: anyUser}
	h.Log, err = audit.Open(t.Context(), h.deps)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func each(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, build(t, db)) })
}

// record appends one entry for each user in one transaction.
func (h *harness) record(ctx context.Context, action string, users ...int64) {
	h.t.Helper()
	err := h.db.InTx(ctx, func(tx *sqldb.Tx) error {
		for _, user := range users {
			if err := h.Record(ctx, tx, audit.Entry{UserID: user, Action: action, Object: "thing 1", Detail: map[string]any{"id": int64(9007199254740993)}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// session is the context of a request of the user.
func session(t testing.TB, user int64) context.Context {
	t.Helper()
	return access.With(t.Context(), &access.Caller{Kind: access.KindSession, UserID: user, SessionID: 7})
}

// exec runs a statement as somebody would who has the database.
func (h *harness) exec(query string, args ...any) error {
	_, err := h.db.Writer().ExecContext(h.t.Context(), query, args...)
	return err
}

func (h *harness) must(query string, args ...any) {
	h.t.Helper()
	if err := h.exec(query, args...); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
}

// defenceless takes the triggers away, which the owner of a database can.
func (h *harness) defenceless() {
	h.t.Helper()
	triggers := []string{"audit_log_no_update", "audit_log_no_delete", "audit_heads_stay", "audit_heads_grow", "audit_keys_stay"}
	if h.db.Dialect() == sqldb.Postgres {
		for _, table := range []string{"audit_log", "audit_heads", "audit_keys"} {
			h.must("ALTER TABLE " + table + " DISABLE TRIGGER USER")
		}
		return
	}
	for _, trigger := range triggers {
		h.must("DROP TRIGGER " + trigger)
	}
}

func (h *harness) number(query string, args ...any) (n int64) {
	h.t.Helper()
	if err := h.db.Reader().QueryRowContext(h.t.Context(), query, args...).Scan(&n); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// whole fails unless the log verifies, and returns the outcome.
func (h *harness) whole(anchors ...audit.Anchor) *audit.Verified {
	h.t.Helper()
	v, err := h.Verify(h.t.Context(), audit.Verification{Anchors: anchors})
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// problem fails unless verifying finds something, and returns it.
func (h *harness) problem(v audit.Verification) *audit.Problem {
	h.t.Helper()
	_, err := h.Verify(h.t.Context(), v)
	p, ok := errors.AsType[*audit.Problem](err)
	if !ok {
		h.t.Fatalf("%v is no problem", err)
	}
	return p
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// reopen opens the log as the next start of a node does.
func (h *harness) reopen(stamp string) (*audit.Log, error) {
	h.t.Helper()
	d := h.deps
	d.Stamp = stamp
	return audit.Open(h.t.Context(), d)
}
