package audit

import (
	"context"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Accepted is what Accept found and made good.
type Accepted struct {
	What  string // what was wrong; "": nothing
	Users int64  // who had no log and have one from now on
}

const acceptBatch = 200

// Accept opens the log as Open does and takes what Open would refuse, or Keep
// would report, as the state from now on: after a backup was restored, or on a
// new database beside an old data folder. It is recorded, with the reason. What
// was changed within the chains stays wrong: [Log.Verify] goes on to find it.
// users are as in Verification.
func Accept(ctx context.Context, d Deps, reason string, users func(ctx context.Context, after, limit int64) ([]int64, error)) (*Accepted, error) {
	accepted := &Accepted{}
	l, err := Open(ctx, d)
	if gone, ok := errors.AsType[*Lost](err); ok {
		accepted.What = gone.What
		l, err = openAnyhow(ctx, d)
	}
	if err != nil {
		return nil, err
	}
	if accepted.What == "" {
		if _, accepted.What, err = l.sinceStamp(ctx); err != nil {
			return nil, err
		}
	}
	if accepted.What == "" {
		return accepted, nil
	}
	err = l.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := state(ctx, tx, setStatementSQL, l.keys, l.key); err != nil {
			return err
		}
		return l.Record(ctx, tx, Entry{Action: "audit.accept", Object: "audit log", Detail: map[string]any{"found": accepted.What, "reason": reason}})
	})
	if err != nil {
		return nil, fmt.Errorf("accept the audit log: %w", err)
	}
	if accepted.Users, err = l.beginAll(ctx, users); err != nil {
		return nil, err
	}
	l.stamp = nil
	return accepted, l.Keep(ctx)
}

// openAnyhow is Open without a look at what the log was.
func openAnyhow(ctx context.Context, d Deps) (*Log, error) {
	l := prepare(d)
	l.anyhow = true
	return l, l.open(ctx)
}

// beginAll begins the log of every user who has none.
func (l *Log) beginAll(ctx context.Context, users func(ctx context.Context, after, limit int64) ([]int64, error)) (begun int64, err error) {
	for after := int64(0); users != nil; {
		ids, err := users(ctx, after, acceptBatch)
		if err != nil || len(ids) == 0 {
			return begun, err
		}
		err = l.db.InTx(ctx, func(tx *sqldb.Tx) error {
			for _, id := range ids {
				h, err := readHead(ctx, tx, chain{user: id})
				if err != nil || h.seq >= 0 {
					after = id
					if err != nil {
						return err
					}
					continue
				}
				if err := l.Record(ctx, tx, Entry{UserID: id, Action: "audit.accept", Object: userObject(id)}); err != nil {
					return err
				}
				begun++
				after = id
			}
			return nil
		})
		if err != nil {
			return begun, fmt.Errorf("begin the logs of users: %w", err)
		}
	}
	return begun, nil
}
