package issuance

import (
	"math/rand/v2"
	"sync"
	"time"
)

// turns shares the workers of this process between users, so that attempts at
// an authority that hangs, however many one user begins, leave workers for
// everybody else: a user may take one more only while there are more free ones
// than the user has already. One user alone gets half of all, the next half of
// the rest.
type turns struct {
	mu     sync.Mutex
	free   int
	taken  map[int64]int   // by user
	away   map[int64]int64 // attempts that were sent away, and whose they are
	queued map[int64]int   // how many were sent away, by user
}

func newTurns(workers int) *turns {
	return &turns{free: workers, taken: map[int64]int{}, away: map[int64]int64{}, queued: map[int64]int{}}
}

const (
	shortestTurn = time.Second
	longestTurn  = 30 * time.Second
	// turnPerAttempt keeps the comings of all that were sent away, each of them
	// some writes, below a hundred in a second.
	turnPerAttempt = 10 * time.Millisecond
)

// take takes a worker for the attempt. Where the user has enough of them, wait
// is how long it should stay away. Who took one gives it back with leave.
func (t *turns) take(userID, id int64) (leave func(), wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(id)
	if t.taken[userID] >= t.free {
		t.away[id] = userID
		t.queued[userID]++
		wait = min(max(time.Duration(t.queued[userID])*turnPerAttempt, shortestTurn), longestTurn)
		return nil, wait/2 + rand.N(wait) //nolint:gosec // not a secret
	}
	t.free--
	t.taken[userID]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free++
		if t.taken[userID]--; t.taken[userID] == 0 {
			delete(t.taken, userID)
		}
	}, 0
}

// gone forgets an attempt that has ended.
func (t *turns) gone(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(id)
}

func (t *turns) forget(id int64) {
	userID, ok := t.away[id]
	if !ok {
		return
	}
	delete(t.away, id)
	if t.queued[userID]--; t.queued[userID] == 0 {
		delete(t.queued, userID)
	}
}
