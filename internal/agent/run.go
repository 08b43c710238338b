package agent

import (
	"context"
	"errors"
	"time"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/clock"
)

const (
	pollWait     = 25 * time.Second
	fullEvery    = 6 * time.Hour
	firstBackoff = 5 * time.Second
	lastBackoff  = 300 * time.Second
)

// Run keeps the device up to date until ctx ends, and then gives nil. It
// outlives a server that is away. An error means that a person must act, for
// example log in again.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.awaitReady(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	a.device.Patient = true
	backoff := clock.Backoff{First: firstBackoff, Max: lastBackoff}
	l := &loop{agent: a}
	for {
		err := l.cycle(ctx)
		switch {
		case ctx.Err() != nil:
			a.log.InfoContext(ctx, "stopped")
			return nil //nolint:nilerr // what broke off because it was told to is no failure
		case err == nil:
			backoff.Reset()
		case errors.Is(err, client.ErrLoginRequired):
			return errors.Join(err, a.trouble(err))
		default:
			after, _ := client.Transient(err)
			a.pause(ctx, err, backoff.Next(max(after, l.interval)))
		}
	}
}

// awaitReady is begin for a server that may be away. It gives nil when ctx ends.
func (a *Agent) awaitReady(ctx context.Context) error {
	backoff := clock.Backoff{First: firstBackoff, Max: lastBackoff}
	err := a.begin(ctx)
	for {
		after, passes := client.Transient(err)
		if !passes {
			return err
		}
		if a.pause(ctx, err, backoff.Next(after)); ctx.Err() != nil {
			return nil //nolint:nilerr // as in Run
		}
		err = a.ready(ctx)
	}
}

// pause notes why a cycle failed and waits, at most until ctx ends.
func (a *Agent) pause(ctx context.Context, cause error, wait time.Duration) {
	a.log.WarnContext(ctx, "will be tried again", "in", wait, "cause", cause)
	err := errors.Join(a.trouble(cause), a.clock.Sleep(ctx, wait))
	if err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "state folder cannot be written", "cause", err)
	}
}

// loop is the memory of Run between its cycles.
type loop struct {
	agent    *Agent
	interval time.Duration // the server's X-Poll-Interval
	full     time.Time     // when everything was last fetched
	todo     task          // of a round that could not be ended
}

// cycle does what is due, then polls once and does what the signals say. The
// cursor moves on only after that.
func (l *loop) cycle(ctx context.Context) error {
	a := l.agent
	a.announce(ctx)
	now := a.clock.Now()
	if l.full.IsZero() || now.Sub(l.full) >= fullEvery {
		l.todo.all = true
	}
	if due, err := l.due(now); err != nil {
		return err
	} else if due || !l.todo.empty() {
		if err := l.round(ctx); err != nil {
			return err
		}
	}
	return l.poll(ctx)
}

// round does the task at hand; it stays at hand when that fails.
func (l *loop) round(ctx context.Context) error {
	if _, err := l.agent.round(ctx, l.todo); err != nil {
		return err
	}
	if l.todo.all {
		l.full = l.agent.clock.Now()
	}
	l.todo = task{}
	return l.agent.contact("")
}

// due says whether a failed or waiting item is to be tried again.
func (l *loop) due(now time.Time) (bool, error) {
	next, err := l.next()
	return err == nil && !next.IsZero() && !now.Before(next), err
}

// next gives when the earliest item is to be tried again; zero: none.
func (l *loop) next() (time.Time, error) {
	next, err := l.agent.engine.NextRetry()
	if err != nil {
		return next, err
	}
	if l.agent.waiting() {
		if w := l.agent.nextWait(); next.IsZero() || w.Before(next) {
			next = w
		}
	}
	return next, nil
}

func (l *loop) poll(ctx context.Context) error {
	a := l.agent
	wait, err := l.patience()
	if err != nil {
		return err
	}
	begin := a.clock.Now()
	u, err := a.device.Updates(ctx, a.sync.Cursor, wait)
	if errors.Is(err, client.ErrResync) && a.sync.Cursor != "" {
		a.log.WarnContext(ctx, "the server dropped our place in the stream: everything is fetched again")
		return l.resync()
	}
	if err != nil {
		return err
	}
	l.interval = u.Interval
	if len(u.Signals) > 0 {
		return l.handle(ctx, u)
	}
	if err := a.contact(u.Cursor); err != nil {
		return err
	}
	// A server that does not hold requests is asked at its own pace.
	if a.clock.Now().Sub(begin) < wait-time.Second || wait < time.Second {
		return a.clock.Sleep(ctx, min(u.Interval, max(wait, time.Second)))
	}
	return nil
}

// patience gives how long the server may hold a poll.
func (l *loop) patience() (time.Duration, error) {
	next, err := l.next()
	if err != nil || next.IsZero() {
		return pollWait, err
	}
	return max(0, min(pollWait, next.Sub(l.agent.clock.Now()).Truncate(time.Second))), nil
}

func (l *loop) handle(ctx context.Context, u *client.Updates) error {
	l.todo = taskOf(u.Signals, l.agent.version())
	if l.todo.resync {
		return l.resync()
	}
	if !l.todo.empty() {
		if err := l.round(ctx); err != nil {
			return err
		}
	}
	return l.agent.contact(u.Cursor)
}

// resync drops the cursor and all that is known; the next cycle fetches it.
func (l *loop) resync() error {
	a := l.agent
	a.sync = syncState{LastContactMS: a.clock.Now().UnixMilli()}
	clear(a.waits)
	l.todo = task{all: true}
	return a.saveSync()
}

// waiting says whether an object is to be asked for again.
func (a *Agent) waiting() bool {
	return !a.nextWait().IsZero()
}

// nextWait gives when the next object is to be asked for again; zero: none.
func (a *Agent) nextWait() time.Time {
	var next time.Time
	for _, w := range a.waits {
		if !w.over() && (next.IsZero() || w.next.Before(next)) {
			next = w.next
		}
	}
	return next
}
