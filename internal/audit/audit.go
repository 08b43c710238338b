// Package audit records who did what, in the transaction that did it.
//
// Entries are only appended. They hold no secret: Detail is for ids, names and
// reasons.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Entry is one line of the log. Actor and time are filled in by Record.
type Entry struct {
	UserID int64          // whose log it belongs to; 0: nobody's
	Action string         // noun.verb, for example "certificate.export"
	Object string         // kind and id, for example "certificate 12"
	Detail map[string]any // further facts, may be nil
}

// Log appends entries.
type Log struct{ now func() time.Time }

// New returns a Log that takes the time from now.
func New(now func() time.Time) *Log { return &Log{now: now} }

// Record appends e with tx. The actor is the caller of ctx, or the system.
func (l *Log) Record(ctx context.Context, tx sqldb.Querier, e Entry) error {
	detail := []byte("{}")
	if e.Detail != nil {
		var err error
		if detail, err = json.Marshal(e.Detail); err != nil {
			return fmt.Errorf("audit %s: %w", e.Action, err)
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO audit_log (at, user_id, actor, action, object, detail, request_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		l.now().UnixMilli(), e.UserID, actor(access.From(ctx)), e.Action, e.Object, string(detail), web.RequestID(ctx))
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}

func actor(c *access.Caller) string {
	switch {
	case c == nil:
		return "system"
	case c.Kind == access.KindKey:
		return fmt.Sprintf("key %d", c.KeyID)
	case c.Kind == access.KindDevice:
		return fmt.Sprintf("device %d", c.DeviceID)
	case c.Kind == access.KindWorker:
		return "worker"
	}
	return fmt.Sprintf("session %d", c.SessionID)
}
