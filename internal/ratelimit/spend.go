package ratelimit

import (
	"context"
	"fmt"
	"sync"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Spent are hits that were committed before what they stand for was looked at.
// Call Settle when it is known what came of it, after GiveBack if that is due.
type Spent struct {
	limiter *Limiter
	hits    []counted
	once    sync.Once
}

// Spend counts the hits in a transaction of its own, all or none, and returns
// when they are committed. with, unless nil, writes along with them.
//
// A right secret gives its hits back, so hits that are not decided yet may come
// free: where they are those of this process, Spend waits for them before it
// refuses.
func (l *Limiter) Spend(ctx context.Context, with func(*sqldb.Tx) error, hits ...Hit) (*Spent, error) {
	for {
		changed := l.open.watch()
		spent, err := l.spend(ctx, with, hits)
		if err == nil || !fault.Is(err, fault.CodeRateLimited) || !l.open.any(hits) {
			return spent, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (l *Limiter) spend(ctx context.Context, with func(*sqldb.Tx) error, hits []Hit) (*Spent, error) {
	if err := l.Peek(ctx, hits...); err != nil { // costs no write
		return nil, err
	}
	s := &Spent{limiter: l}
	l.open.begin(hits)
	err := l.db.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		if s.hits, err = l.count(ctx, tx, hits); err != nil || with == nil {
			return err
		}
		return with(tx)
	})
	if err != nil {
		l.open.end(hits)
		return nil, err
	}
	return s, nil
}

// GiveBack takes the hits back with tx: the secret was right. What has begun a
// new window since is left alone.
func (s *Spent) GiveBack(ctx context.Context, tx *sqldb.Tx) error {
	for _, h := range s.hits {
		if _, err := tx.ExecContext(ctx, giveBackSQL, h.bucket, h.ends); err != nil {
			return fmt.Errorf("give a hit back: %w", err)
		}
	}
	return nil
}

// Settle says that the hits are decided: given back, or spent for good. It may
// be called more than once.
func (s *Spent) Settle() {
	s.once.Do(func() { s.limiter.open.settle(s.hits) })
}

// flights are the hits of this process that are spent and not decided.
type flights struct {
	mu      sync.Mutex
	open    map[string]int
	changed chan struct{} // closed at the next settlement
}

// watch is closed when something is settled after now.
func (f *flights) watch() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *flights) begin(hits []Hit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]int{}
	}
	for _, h := range hits {
		f.open[h.bucket()]++
	}
}

func (f *flights) any(hits []Hit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hits {
		if f.open[h.bucket()] > 0 {
			return true
		}
	}
	return false
}

func (f *flights) end(hits []Hit) {
	done := make([]counted, len(hits))
	for i, h := range hits {
		done[i].bucket = h.bucket()
	}
	f.settle(done)
}

func (f *flights) settle(done []counted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range done {
		if f.open[d.bucket]--; f.open[d.bucket] <= 0 {
			delete(f.open, d.bucket)
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}
