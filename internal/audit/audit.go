package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Entry is one line of the log. Who, when and from where is filled in by Record.
type Entry struct {
	UserID int64          // whose log it belongs to; 0: nobody's
	Action string         // noun.verb, for example "certificate.export"
	Object string         // kind and id, for example "certificate 12"
	Detail map[string]any // further facts, may be nil
}

// Log appends entries. Make one with Open.
type Log struct {
	db       *sqldb.DB
	now      func() time.Time
	log      *slog.Logger
	key      []byte
	system   string // the actor where nobody calls
	closed   error  // why nothing can be recorded
	refusals refusals

	keys      *seal.Keyring
	used      func(ctx context.Context, q sqldb.Querier) (bool, error)
	anyhow    bool // open a log that is not the one that was there
	stampPath string
	keeping   sync.Mutex
	stamp     *stamp // as the file had it, nil: none

	cancel  context.CancelFunc // ends what Start began
	stopped chan struct{}
}

// New returns a Log under a key of its own that ends with the process, for the
// tests of the areas: nothing else can verify its chains.
func New(now func() time.Time) *Log {
	return &Log{now: now, log: slog.New(slog.DiscardHandler), key: seal.NewDataKey(), system: actorSystem}
}

// Closed returns a Log that refuses to record because of err, and with it every
// change that has to be recorded.
func Closed(err error) *Log { return &Log{closed: err} }

// Record appends e at the end of tx. The actor is the caller of ctx; without
// one "anonymous" in a request, and "system" elsewhere. What an administrator does
// to another user stands in the logs of both: in the user's by the id of the
// administrator, without the address and the program. Refusals, whose actions
// end in "refused", are left out when there are too many of them (see refusals).
func (l *Log) Record(ctx context.Context, tx *sqldb.Tx, e Entry) error {
	if l.closed != nil {
		return fmt.Errorf("record %s in the audit log: %w", e.Action, l.closed)
	}
	actor, now := l.actor(ctx), l.now()
	if isRefusal(e.Action) {
		ok, last := l.refusals.take(now, refused{e.UserID, actor})
		if !ok {
			return nil
		}
		if last {
			e.Detail = withMore(e.Detail)
		}
	}
	detail := []byte("{}")
	if e.Detail != nil {
		var err error
		if detail, err = json.Marshal(e.Detail); err != nil {
			return fmt.Errorf("audit %s: %w", e.Action, err)
		}
	}
	r := row{
		chain: chain{user: e.UserID}, at: now.UnixMilli(), actor: actor, action: e.Action, object: clean(e.Object), detail: string(detail),
		requestID: web.RequestID(ctx), ip: web.ClientIP(ctx), userAgent: web.UserAgent(ctx),
	}
	if admin, ok := administrator(ctx, e.UserID); ok {
		own := r
		own.user = admin
		tx.AtEnd(l, own, l.appendAll)
		r.actor, r.ip, r.userAgent = fmt.Sprintf("administrator %d", admin), "", ""
	}
	tx.AtEnd(l, r, l.appendAll)
	return nil
}

const (
	actorSystem    = "system"
	actorAnonymous = "anonymous"
)

func (l *Log) actor(ctx context.Context) string {
	c := access.From(ctx)
	switch {
	case c == nil && web.RequestID(ctx) != "":
		return actorAnonymous
	case c == nil:
		return l.system
	case c.Kind == access.KindKey:
		return fmt.Sprintf("key %d", c.KeyID)
	case c.Kind == access.KindDevice:
		return fmt.Sprintf("device %d", c.DeviceID)
	case c.Kind == access.KindWorker:
		return "worker"
	}
	return fmt.Sprintf("session %d", c.SessionID)
}

// administrator is who looks after the user of the entry, if the caller is not
// that user.
func administrator(ctx context.Context, user int64) (id int64, ok bool) {
	c := access.From(ctx)
	ok = c != nil && c.Kind == access.KindSession && user != 0 && c.UserID != user && slices.Contains(c.Roles, access.RoleAdmin)
	if !ok {
		return 0, false
	}
	return c.UserID, true
}

// clip shortens what a client says to so many bytes.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return clean(text)
}

// clean leaves out what PostgreSQL's TEXT cannot hold.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}
