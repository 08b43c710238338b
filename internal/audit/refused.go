package audit

import (
	"context"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const (
	refusalsEach   = 20 // of one actor in a window, on one node
	refusalsWindow = 15 * time.Minute
	refusalActors  = 10_000 // that are remembered at once
	maxPath        = 300    // bytes that are kept of the path that was asked for
)

// refusals bounds how much of the log an actor can fill with being refused.
type refusals struct {
	mu    sync.Mutex
	since time.Time
	count map[refused]int
}

type refused struct {
	user  int64
	actor string
}

// take counts a refusal. last says that the following ones are left out until
// the window ends.
func (r *refusals) take(now time.Time, who refused) (ok, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.since); age >= refusalsWindow || age < 0 || len(r.count) >= refusalActors {
		r.since, r.count = now, map[refused]int{}
	}
	if r.count[who] == refusalsEach {
		return false, true
	}
	r.count[who]++
	return true, r.count[who] == refusalsEach
}

// Refuse records a refusal in a transaction of its own, up to 20 in 15 minutes
// for each actor: the twentieth says that more may have followed. A refusal that
// cannot be recorded remains one; the failure is logged.
func (l *Log) Refuse(ctx context.Context, e Entry) {
	if l.db == nil {
		return // a Log made with New
	}
	ok, last := l.refusals.take(l.now(), refused{e.UserID, l.actor(ctx)})
	if !ok {
		return
	}
	if last {
		e.Detail["more_not_recorded"] = true
	}
	ctx = context.WithoutCancel(ctx)
	if err := l.db.InTx(ctx, func(tx *sqldb.Tx) error { return l.Record(ctx, tx, e) }); err != nil {
		l.log.WarnContext(ctx, "a refusal could not be recorded in the audit log", "action", e.Action, "user_id", e.UserID, "error", err)
	}
}

// RefuseAccess records that the caller of ctx was answered with 403. It is the
// Refused of web.Options.
func (l *Log) RefuseAccess(ctx context.Context, r web.Refusal) {
	l.Refuse(ctx, Entry{
		UserID: access.From(ctx).UserID, Action: "access.refused", Object: r.Route,
		Detail: map[string]any{"path": clip(r.Path, maxPath), "code": r.Code, "reason": r.What},
	})
}
