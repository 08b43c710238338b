package jobs

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Turns shares the places of a pool of this process between users, and between
// the remotes that their work waits for.
//
// A user takes a place while more places are free than the user has: one user
// alone gets half of all, the next half of the rest. One remote gets a quarter.
// So whatever one user begins, and whatever hangs at one remote, places are left
// for all others.
//
// Work that gets no place waits in a room under the same rules. A place that
// becomes free goes to the users who wait, one after the other, and with each
// user to what came first. What finds no room stays away for a while: its row
// is its place in the line.
type Turns struct {
	mu     sync.Mutex
	closed bool
	inside share
	room   share
	order  []int64             // users who wait, who is served next comes first
	lines  map[int64][]*waiter // by user
	away   map[int64]int       // how many were sent away, by user, until one of theirs comes in
}

// share counts who has how many of something.
type share struct {
	free, most int // most is what one remote may have
	users      map[int64]int
	remotes    map[string]int
}

type waiter struct {
	user   int64
	remote string
	come   chan bool // true: in; false: the pool closes
}

const (
	// roomPerPlace is how many wait for each place. One that waits costs a
	// goroutine.
	roomPerPlace = 3
	// roomTime is how long one waits before it makes room for others.
	roomTime = 12 * time.Second

	shortestAway = time.Second
	longestAway  = 30 * time.Second
	// awayEach keeps the comings of all that were sent away, each of them some
	// writes, below a hundred in a second.
	awayEach = 10 * time.Millisecond
)

// NewTurns makes a pool of so many places.
func NewTurns(places int) *Turns {
	return &Turns{
		inside: newShare(places), room: newShare(places * roomPerPlace),
		lines: map[int64][]*waiter{}, away: map[int64]int{},
	}
}

func newShare(all int) share {
	return share{free: all, most: max(1, all/4), users: map[int64]int{}, remotes: map[string]int{}}
}

// has tells whether the user may take one more for the remote, "" for none.
func (s *share) has(user int64, remote string) bool {
	return s.users[user] < s.free && (remote == "" || s.remotes[remote] < s.most)
}

func (s *share) take(user int64, remote string) {
	s.free--
	s.users[user]++
	if remote != "" {
		s.remotes[remote]++
	}
}

func (s *share) give(user int64, remote string) {
	s.free++
	if s.users[user]--; s.users[user] == 0 {
		delete(s.users, user)
	}
	if remote == "" {
		return
	}
	if s.remotes[remote]--; s.remotes[remote] == 0 {
		delete(s.remotes, remote)
	}
}

// Enter takes a place for work of the user that waits for the remote, a host
// name or "". It waits for its turn for some seconds; where there is none, leave
// is nil and the work should stay away for so long. leave gives the place back.
func (t *Turns) Enter(ctx context.Context, user int64, remote string) (leave func(), away time.Duration) {
	t.mu.Lock()
	if len(t.lines[user]) == 0 && t.inside.has(user, remote) {
		t.inside.take(user, remote)
		delete(t.away, user)
		t.mu.Unlock()
		return func() { t.leave(user, remote) }, 0
	}
	if t.closed || !t.room.has(user, remote) {
		defer t.mu.Unlock()
		return nil, t.sendAway(user)
	}
	w := t.queue(user, remote)
	t.mu.Unlock()
	timer := time.NewTimer(roomTime)
	defer timer.Stop()
	select {
	case in := <-w.come:
		return t.called(w, in)
	case <-timer.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	waits := t.unqueue(w)
	t.mu.Unlock()
	if !waits { // it was called at this moment
		return t.called(w, <-w.come)
	}
	return nil, shortestAway/2 + rand.N(shortestAway) //nolint:gosec // not a secret
}

func (t *Turns) called(w *waiter, in bool) (func(), time.Duration) {
	if !in {
		return nil, shortestAway
	}
	return func() { t.leave(w.user, w.remote) }, 0
}

// sendAway says for how long; the more of one user's work is away, the longer.
func (t *Turns) sendAway(user int64) time.Duration {
	t.away[user]++
	wait := min(max(time.Duration(t.away[user])*awayEach, shortestAway), longestAway)
	return wait/2 + rand.N(wait) //nolint:gosec // not a secret
}

func (t *Turns) queue(user int64, remote string) *waiter {
	w := &waiter{user: user, remote: remote, come: make(chan bool, 1)}
	if len(t.lines[user]) == 0 {
		t.order = append(t.order, user)
	}
	t.lines[user] = append(t.lines[user], w)
	t.room.take(user, remote)
	return w
}

// unqueue takes the waiter out of its line; false when it stands there no more.
func (t *Turns) unqueue(w *waiter) bool {
	line := t.lines[w.user]
	for i := range line {
		if line[i] != w {
			continue
		}
		t.room.give(w.user, w.remote)
		if t.lines[w.user] = append(line[:i:i], line[i+1:]...); len(line) == 1 {
			delete(t.lines, w.user)
			t.order = without(t.order, w.user)
		}
		return true
	}
	return false
}

func without(order []int64, user int64) []int64 {
	for i := range order {
		if order[i] == user {
			return append(order[:i:i], order[i+1:]...)
		}
	}
	return order
}

func (t *Turns) leave(user int64, remote string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inside.give(user, remote)
	for t.callNext() {
	}
}

// callNext gives a free place to the next user in turn who may take it, and
// puts that user behind all others.
func (t *Turns) callNext() bool {
	for _, user := range t.order {
		for _, w := range t.lines[user] {
			if !t.inside.has(user, w.remote) {
				continue
			}
			t.unqueue(w)
			t.inside.take(user, w.remote)
			delete(t.away, user)
			if len(t.lines[user]) > 0 {
				t.order = append(without(t.order, user), user)
			}
			w.come <- true
			return true
		}
	}
	return false
}

// close sends everything away that waits, so that a server which stops need not
// wait for it.
func (t *Turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, line := range t.lines {
		for _, w := range line {
			t.room.give(w.user, w.remote)
			w.come <- false
		}
	}
	t.lines, t.order = map[int64][]*waiter{}, nil
}
