package issuance

import (
	"context"
	"sync"
	"time"
)

// asked tells a validation when the CA has asked for all of its answers: then
// it is worth a look. It is a hint for speed, within one process; where the CA
// asks another node the usual waits do.
type asked struct {
	mu   sync.Mutex
	open map[string]struct{} // tokens that nobody has asked for
	all  chan struct{}
}

// settleTime is what a CA needs at the least, after the answer, to note it.
const settleTime = 4 * time.Millisecond

// expect begins to listen for the tokens; the run's end forgets it.
func (s *Service) expect(id int64, tokens []string) (*asked, func()) {
	a := &asked{open: make(map[string]struct{}, len(tokens)), all: make(chan struct{})}
	for _, token := range tokens {
		a.open[token] = struct{}{}
	}
	s.asked.Store(id, a)
	return a, func() { s.asked.CompareAndDelete(id, a) }
}

// answered notes that the token of the attempt was asked for.
func (s *Service) answered(id int64, token string) {
	found, ok := s.asked.Load(id)
	if !ok {
		return
	}
	a := found.(*asked)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.open[token]; !ok {
		return
	}
	if delete(a.open, token); len(a.open) == 0 {
		close(a.all)
	}
}

// sleep waits for d, or until shortly after the last answer was given, once.
func (a *asked) sleep(ctx context.Context, d time.Duration, sleep func(context.Context, time.Duration) error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.all:
		a.all = nil // of this waiter alone
		return sleep(ctx, min(settleTime, d))
	}
}
