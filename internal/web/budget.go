package web

import (
	"context"
	"errors"
	"sync"
)

// errFull and errShare say why a budget gave nothing.
var (
	errFull  = errors.New("everything is taken")
	errShare = errors.New("the share of one is taken")
)

// budget is an amount of bytes that requests share. One holder, a user or an
// address, has at most its share of it. Waiters are served by turns: of those
// whose holders have least, the one that came first.
type budget struct {
	total, share int64

	mu      sync.Mutex
	taken   int64
	by      map[string]int64
	waiting []*turn
	coming  map[string][]*receipt // what each holder still sends, the oldest first
}

type turn struct {
	holder string
	n      int64
	ready  chan struct{}
}

func newBudget(total, share int64) *budget {
	return &budget{total: total, share: share, by: map[string]int64{}, coming: map[string][]*receipt{}}
}

// wait gives n bytes, at most the share, when it is the holder's turn, or the
// context's error.
func (b *budget) wait(ctx context.Context, holder string, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.fits(holder, n) {
		b.add(holder, n)
		b.mu.Unlock()
		return nil
	}
	t := &turn{holder: holder, n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, t)
	b.serve()
	b.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-t.ready: // both at once
		b.add(holder, -n)
	default:
		for i, other := range b.waiting {
			if other == t {
				b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
				break
			}
		}
	}
	b.serve()
	return ctx.Err()
}

// give returns n bytes; a negative n takes them whatever is left.
func (b *budget) give(holder string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(holder, -n)
	b.serve()
}

func (b *budget) fits(holder string, n int64) bool {
	return b.by[holder]+n <= b.share && b.taken+n <= b.total
}

func (b *budget) add(holder string, n int64) {
	b.taken += n
	if b.by[holder] += n; b.by[holder] == 0 {
		delete(b.by, holder)
	}
}

// serve gives to those who wait as long as there is something. What the next
// one needs is kept for it, unless its holder has its share.
func (b *budget) serve() {
	for {
		next := -1
		for i, t := range b.waiting {
			if b.by[t.holder]+t.n <= b.share && (next < 0 || b.by[t.holder] < b.by[b.waiting[next].holder]) {
				next = i
			}
		}
		if next < 0 || !b.fits(b.waiting[next].holder, b.waiting[next].n) {
			return
		}
		t := b.waiting[next]
		b.waiting = append(b.waiting[:next], b.waiting[next+1:]...)
		b.add(t.holder, t.n)
		close(t.ready)
	}
}
