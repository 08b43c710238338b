package audit

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// How many refusals are recorded in a window on one node, so that a flood of
// them cannot fill the disk. Who is not known is limited elsewhere by account
// and by address; these are for many of either.
const (
	refusalsOfCaller = 20   // of each session, key or device
	refusalsOfUser   = 500  // of everybody else who tries to be the user
	refusalsOfNobody = 2000 // where no user is concerned
	refusalsWindow   = 15 * time.Minute
	refusalActors    = 10_000 // that are remembered at once
	maxPath          = 300    // bytes that are kept of the path that was asked for
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

func (r refused) most() int {
	switch {
	case r.actor != actorAnonymous:
		return refusalsOfCaller
	case r.user != 0:
		return refusalsOfUser
	}
	return refusalsOfNobody
}

func isRefusal(action string) bool { return strings.HasSuffix(action, "refused") }

// withMore is the detail of the last refusal that is recorded in a window.
func withMore(detail map[string]any) map[string]any {
	detail = maps.Clone(detail)
	if detail == nil {
		detail = map[string]any{}
	}
	detail["more_not_recorded"] = true
	return detail
}

// take counts a refusal. last says that the following ones are left out until
// the window ends.
func (r *refusals) take(now time.Time, who refused) (ok, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.since); age >= refusalsWindow || age < 0 || len(r.count) >= refusalActors {
		r.since, r.count = now, map[refused]int{}
	}
	if r.count[who] >= who.most() {
		return false, false
	}
	r.count[who]++
	return true, r.count[who] == who.most()
}

// full reports whether a refusal would be left out.
func (r *refusals) full(now time.Time, who refused) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.since) < refusalsWindow && r.count[who] >= who.most()
}

// Refuse records a refusal in a transaction of its own. A refusal that cannot be
// recorded remains one; the failure is logged.
func (l *Log) Refuse(ctx context.Context, e Entry) {
	if l.db == nil || l.refusals.full(l.now(), refused{e.UserID, l.actor(ctx)}) {
		return // a Log made with New, or one of too many: they cost no transaction
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
