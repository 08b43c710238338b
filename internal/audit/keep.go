package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
)

// keepEvery is how old the stamp of a running server gets.
const keepEvery = time.Hour

// Start compares the log with the stamp, records that the server started, which
// makes a copy of the database from before it an older one, and keeps the stamp
// up to date until Stop. What is wrong is in the server's log: it does not keep
// the server from its work.
func (l *Log) Start(ctx context.Context, version string) {
	l.keep(ctx)
	err := l.db.InTx(ctx, func(tx *sqldb.Tx) error {
		return l.Record(ctx, tx, Entry{Action: "server.start", Object: "server", Detail: map[string]any{"version": version}})
	})
	if err != nil {
		l.log.ErrorContext(ctx, "the start could not be recorded in the audit log", "error", err)
	}
	l.keep(ctx)
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.stopped = make(chan struct{})
	go func() {
		defer close(l.stopped)
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.keep(ctx)
			}
		}
	}()
}

func (l *Log) keep(ctx context.Context) {
	if err := l.Keep(ctx); err != nil && !errors.Is(err, context.Canceled) {
		l.log.WarnContext(ctx, "the stamp of the audit log could not be renewed; it is tried again in an hour", "error", err)
	}
}

// Stop ends what Start began and has the stamp know the newest entries.
func (l *Log) Stop(ctx context.Context) error {
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	<-l.stopped
	l.cancel = nil
	if err := l.Keep(ctx); err != nil {
		return fmt.Errorf("stop keeping the audit log: %w", err)
	}
	return nil
}
