package identity

import (
	"context"
	"slices"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

// line is who hashes and who waits for it. Addresses take turns, so that a
// thousand sign-ins from one hold up those of another by one each. Where it is
// full, the newest of the address with most waiting gives way to one of an
// address with fewer.
type line struct {
	mu      sync.Mutex
	free    int // slots
	most    int // may wait
	all     int // wait
	waiting map[string][]*waiter
	turns   []string // the addresses with waiters, the next first
}

type waiter struct {
	ready   chan struct{} // closed when it is decided
	refused bool
}

func errLine() error {
	return fault.Unavailable(2*time.Second, "Too many sign-ins at once; try again in a moment.", nil)
}

// enter waits for a slot, at most until ctx ends; leave gives it back.
func (l *line) enter(ctx context.Context, address string) error {
	w, err := l.join(address)
	if err != nil {
		return err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		if l.quit(address, w) {
			return ctx.Err()
		}
		<-w.ready // decided at the same moment
		if !w.refused {
			l.leave()
		}
		return ctx.Err()
	}
	if w.refused {
		return errLine()
	}
	return nil
}

// join gives a place to wait, which is over at once where a slot is free.
func (l *line) join(address string) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &waiter{ready: make(chan struct{})}
	if l.free > 0 {
		l.free--
		close(w.ready)
		return w, nil
	}
	if l.all >= l.most && !l.makeRoom(len(l.waiting[address])+1) {
		return nil, errLine()
	}
	if len(l.waiting[address]) == 0 {
		l.turns = append(l.turns, address)
	}
	l.waiting[address] = append(l.waiting[address], w)
	l.all++
	return w, nil
}

// leave gives a slot to the next address.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.turns) == 0 {
		l.free++
		return
	}
	next := l.turns[0]
	l.turns = append(l.turns[1:], next)
	w := l.waiting[next][0]
	l.remove(next, 0)
	close(w.ready)
}

// crowded reports whether there are others who wait.
func (l *line) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all > 0
}

// quit reports whether the waiter was undecided.
func (l *line) quit(address string, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting[address], w)
	if at >= 0 {
		l.remove(address, at)
	}
	return at >= 0
}

// makeRoom refuses the newest of the address with most waiting, which is more
// than that.
func (l *line) makeRoom(than int) bool {
	largest := ""
	for address, waiting := range l.waiting {
		if len(waiting) > than {
			largest, than = address, len(waiting)
		}
	}
	if largest == "" {
		return false
	}
	w := l.waiting[largest][than-1]
	l.remove(largest, than-1)
	w.refused = true
	close(w.ready)
	return true
}

func (l *line) remove(address string, at int) {
	l.all--
	if l.waiting[address] = slices.Delete(l.waiting[address], at, at+1); len(l.waiting[address]) == 0 {
		delete(l.waiting, address)
		l.turns = slices.DeleteFunc(l.turns, func(other string) bool { return other == address })
	}
}
