package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// pool is a Turns of which a test knows who is inside.
type pool struct {
	*Turns
	t      *testing.T
	leaves []func()
	came   []string // in the order in which they came in
}

// enter comes for a user; it returns once the work is inside, waits or is away.
func (p *pool) enter(user int64, remote string) {
	go func() {
		if leave, away := p.Enter(p.t.Context(), user, remote); leave != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.leaves = append(p.leaves, leave)
			p.came = append(p.came, fmt.Sprintf("%d@%s", user, remote))
		} else if away <= 0 {
			p.t.Errorf("%d@%s is sent away for %s", user, remote, away)
		}
	}()
	synctest.Wait()
}

func (p *pool) flood(many int, user int64, remote string) {
	for range many {
		p.enter(user, remote)
	}
}

// leave lets the first go that came in.
func (p *pool) leave() {
	leave := p.leaves[0]
	p.leaves = p.leaves[1:]
	leave()
	synctest.Wait()
}

func (p *pool) empty() {
	p.close()
	synctest.Wait()
	for len(p.leaves) > 0 {
		p.leave()
	}
	if p.inside.free != 64 || p.room.free != 64*roomPerPlace || len(p.inside.users)+len(p.inside.remotes)+len(p.room.users)+len(p.room.remotes)+len(p.lines) != 0 {
		p.t.Errorf("left behind: %+v", p.Turns)
	}
}

func TestTurnsOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{Turns: NewTurns(64), t: t}
		for user, want := range []int{32, 16, 8, 4, 2, 1, 1} {
			before := len(p.came)
			for i := range 100 {
				p.enter(int64(user), fmt.Sprint(user, i))
			}
			if got := len(p.came) - before; got != want {
				t.Errorf("user %d got %d places, want %d", user, got, want)
			}
		}
		p.empty()
	})
}

// Seventy users with one piece of work each at one remote that hangs leave three
// quarters of the places, and of the room, to all others.
func TestOneRemoteThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{Turns: NewTurns(64), t: t}
		for user := range int64(70) {
			p.enter(user, "hangs")
		}
		if len(p.came) != 16 {
			t.Errorf("%d places for one remote, want 16", len(p.came))
		}
		for i := range 10 {
			if p.enter(100+int64(i), "prompt"); len(p.came) != 17+i {
				t.Fatalf("work for another remote waits: %v", p.came)
			}
		}
		p.empty()
	})
}

// A place that becomes free goes to the next user, not to the next in line of
// the one who came with most.
func TestPlacesAreGivenByTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{Turns: NewTurns(4), t: t}
		p.enter(9, "")
		p.enter(9, "")
		p.enter(8, "")
		p.enter(7, "")
		p.came = nil
		p.flood(5, 1, "")
		p.enter(2, "")
		p.enter(3, "")
		for range 4 {
			p.leave()
		}
		if want := []string{"1@", "2@", "3@"}; !slices.Equal(p.came[:3], want) {
			t.Errorf("came in: %v, want first %v", p.came, want)
		}
		p.close()
		synctest.Wait()
	})
}

// Who waits goes when it is told to, when its time is over and when the pool
// closes, and leaves nothing behind.
func TestWhoWaitsMayGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		leave, _ := turns.Enter(t.Context(), 1, "a")
		if leave == nil {
			t.Fatal("the only place is not given")
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if leave, away := turns.Enter(cancelled, 2, "b"); leave != nil || away <= 0 {
			t.Errorf("cancelled: %v %s", leave != nil, away)
		}
		if leave, away := turns.Enter(t.Context(), 2, "b"); leave != nil || away <= 0 {
			t.Errorf("its time is over: %v %s", leave != nil, away)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if leave, away := turns.Enter(t.Context(), 2, "b"); leave != nil || away <= 0 {
				t.Errorf("closed: %v %s", leave != nil, away)
			}
		}()
		synctest.Wait()
		turns.close()
		<-done
		leave()
		if turns.inside.free != 1 || turns.room.free != roomPerPlace {
			t.Errorf("left behind: %+v", turns)
		}
	})
}

// Of one user's thousands that find no room, each stays away the longer, the
// more there are.
func TestManyStayAwayLonger(t *testing.T) {
	t.Parallel()
	turns := NewTurns(1)
	turns.inside.free, turns.room.free = 0, 0
	_, first := turns.Enter(t.Context(), 1, "a")
	for range 5000 {
		turns.Enter(t.Context(), 1, "a")
	}
	_, last := turns.Enter(t.Context(), 1, "a")
	if first > 2*shortestAway || last < longestAway/2 || last > 2*longestAway {
		t.Errorf("away for %s, of five thousand for %s", first, last)
	}
}
