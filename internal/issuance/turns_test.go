package issuance

import (
	"testing"
	"time"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	turns := newTurns(64)
	var leaves []func()
	id := int64(0)
	takeAll := func(user int64) (n int) {
		for range 100 {
			id++
			leave, wait := turns.take(user, id)
			if (leave == nil) != (wait > 0) {
				t.Fatalf("wait %s with leave %v", wait, leave != nil)
			}
			if leave != nil {
				leaves = append(leaves, leave)
				n++
			}
		}
		return n
	}
	for user, want := range []int{32, 16, 8, 4, 2, 1, 1} {
		if got := takeAll(int64(user)); got != want {
			t.Errorf("user %d got %d workers, want %d", user, got, want)
		}
	}
	if _, wait := turns.take(0, 50); wait < shortestTurn/2 || wait > 3*longestTurn/2 {
		t.Errorf("to stay away for %s", wait)
	}
	for _, leave := range leaves {
		leave()
	}
	for i := range id {
		turns.gone(i + 1)
	}
	if turns.free != 64 || len(turns.taken)+len(turns.away)+len(turns.queued) != 0 {
		t.Errorf("left behind: %+v", turns)
	}
	for i := range int64(5000) {
		turns.free = 0
		turns.take(1, i)
	}
	if _, wait := turns.take(1, 1); wait < 10*time.Second {
		t.Errorf("one of 5000 comes back after %s", wait)
	}
}
