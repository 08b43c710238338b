package webhooks

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	senders     = 8                     // attempts to one receiver at a time
	pageSize    = 256                   // deliveries in memory at a time
	recordBatch = 128                   // results per transaction
	recordAfter = 20 * time.Millisecond // a result waits no longer for others to join it
	recheck     = time.Second           // how often a run with slow attempts looks for new deliveries
	// handOut is how long a run begins attempts; then it plans its successor.
	// With the attempts that it began it ends before its lease does, and before
	// a server that is told to stop loses patience.
	handOut  = 15 * time.Second
	leaseFor = 30 * time.Second
	runLimit = 60 * time.Second // with the wait for a turn
)

// run is one execution of a drain job.
type run struct {
	s      *Service
	hook   locked
	secret []byte
	token  int64
	until  time.Time // no attempt begins later; real time, whatever Deps.Now says

	work    chan delivery
	done    chan finished
	known   map[int64]struct{} // handed out, or done and not recorded
	flying  int                // handed out and not back
	results []result           // to be recorded
	stopped bool               // hand out nothing more
}

// finished is an attempt that came back; ok says that it has a result.
type finished struct {
	result
	ok bool
}

// drain delivers what is due to the webhook, then plans the next job if
// anything is left.
func (s *Service) drain(ctx context.Context, args drainArgs) error {
	if !s.enter(args.WebhookID) {
		return jobs.Snooze(time.Second)
	}
	defer s.leave(args.WebhookID)
	target, err := New(s.db.Reader()).drained(ctx, drainedParams(args))
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil // deleted, or planned anew
	}
	if err != nil {
		return fmt.Errorf("read webhook %d: %w", args.WebhookID, err)
	}
	done, away := s.turns.Enter(ctx, target.UserID, host(target.Url))
	if done == nil {
		return jobs.Snooze(away)
	}
	defer done()
	r, wait, err := s.claim(ctx, args)
	switch {
	case err != nil:
		return err
	case wait > 0:
		return jobs.Snooze(wait)
	case r == nil:
		return nil
	}
	return r.deliver(ctx)
}

// host names the receiver that the work will wait for.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (s *Service) enter(webhookID int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, busy := s.running[webhookID]; busy {
		return false
	}
	s.running[webhookID] = struct{}{}
	return true
}

func (s *Service) leave(webhookID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, webhookID)
}

// claim takes the lease. The run is nil when there is nothing to do for this
// job; wait is how long another process may still be at it.
func (s *Service) claim(ctx context.Context, args drainArgs) (r *run, wait time.Duration, err error) {
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		r, wait = nil, 0
		hook, err := lock(ctx, tx, args.WebhookID)
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return nil
		}
		if err != nil || hook.token != args.Token {
			return err
		}
		if !hook.enabled {
			return New(tx).plan(ctx, planParams{ID: hook.id})
		}
		now := s.now()
		// Our own lease is of a run that failed: enter let us pass. On SQLite any
		// other is of a process that is gone: one alone serves a data folder.
		if hook.holder != s.node && tx.Dialect() == sqldb.Postgres {
			if wait = time.UnixMilli(hook.leaseUntil).Sub(now); wait > 0 {
				return nil
			}
		}
		secret, err := s.keys.Open(secretPlace(hook.id), hook.secret)
		if err != nil {
			return err
		}
		r = &run{
			s: s, hook: hook, secret: secret, token: args.Token, until: time.Now().Add(handOut),
			work: make(chan delivery, pageSize), done: make(chan finished, pageSize), known: map[int64]struct{}{},
		}
		return New(tx).lease(ctx, leaseParams{ID: hook.id, LeaseHolder: s.node, LeaseUntil: now.Add(leaseFor).UnixMilli()})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("claim webhook %d: %w", args.WebhookID, err)
	}
	return r, wait, nil
}

// deliver runs the senders and, between them and the database, its own loop.
func (r *run) deliver(ctx context.Context) error {
	sending, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for d := range r.work {
				f := finished{result: result{delivery: d}}
				if sending.Err() == nil && time.Now().Before(r.until) {
					f.result, f.ok = r.attempt(sending, d)
				}
				r.done <- f // has room for everything that is handed out
			}
		})
	}
	// The webhook is not left before its last attempt has ended.
	defer func() {
		cancel()
		close(r.work)
		group.Wait()
	}()
	return r.loop(ctx)
}

func (r *run) loop(ctx context.Context) error {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	var soon <-chan time.Time // when the results are recorded at the latest
	look := true
	for {
		if look && r.open(ctx) && len(r.known) <= pageSize/2 {
			if err := r.fetch(ctx); err != nil {
				return err
			}
			look = false
		}
		if r.flying == 0 {
			settled, err := r.record(ctx, true)
			if err != nil || settled {
				return err
			}
			look, soon = true, nil
			continue
		}
		select {
		case f := <-r.done:
			r.take(f)
			if soon == nil {
				soon = time.After(recordAfter)
			}
			if len(r.results) < recordBatch {
				continue
			}
		case <-soon:
		case <-ticker.C:
			look = true
			continue
		}
		if _, err := r.record(ctx, false); err != nil {
			return err
		}
		look, soon = true, nil
	}
}

// open reports whether new attempts may begin.
func (r *run) open(ctx context.Context) bool {
	return !r.stopped && ctx.Err() == nil && time.Now().Before(r.until)
}

// fetch hands out what is due.
func (r *run) fetch(ctx context.Context) error {
	page, err := New(r.s.db.Reader()).dueDeliveries(ctx, dueDeliveriesParams{
		WebhookID: r.hook.id, NextAttemptAt: r.s.now().UnixMilli(), Limit: pageSize,
	})
	if err != nil {
		return fmt.Errorf("list due deliveries of webhook %d: %w", r.hook.id, err)
	}
	for _, d := range page {
		if _, ok := r.known[d.ID]; ok || len(r.known) == pageSize {
			continue
		}
		r.known[d.ID] = struct{}{}
		r.flying++
		r.work <- d
	}
	return nil
}

func (r *run) take(f finished) {
	r.flying--
	if f.ok {
		r.results = append(r.results, f.result)
	}
}
