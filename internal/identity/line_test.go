package identity

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"certharbor.dev/certharbor/internal/fault"
)

// TestOneAddressDoesNotFillTheLine: where all places are one address's, another
// address still gets one, and its turn comes next but one.
func TestOneAddressDoesNotFillTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{most: 8, waiting: map[string][]*waiter{}}
		var mu sync.Mutex
		var order []string
		enter := func(address string) {
			err := l.enter(t.Context(), address)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case fault.Is(err, fault.CodeUnavailable):
				address = "no"
			case err != nil:
				t.Error(err)
			}
			order = append(order, address)
		}
		for i := range 9 {
			go enter("a")
			synctest.Wait()
			if i == 8 && len(order) != 1 {
				t.Errorf("the ninth: %v", order)
			}
		}
		for _, address := range []string{"b", "c", "b"} {
			go enter(address)
			synctest.Wait()
		}
		for range 8 {
			l.leave()
			synctest.Wait()
		}
		want := strings.Repeat("no", 4) + "abcabaaa"
		if got := strings.Join(order, ""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if l.crowded() || len(l.turns) != 0 || len(l.waiting) != 0 {
			t.Errorf("left over: %+v", l)
		}
	})
}

// TestLineLosesNoSlot: whoever gives up at any moment, all slots are free in the
// end.
func TestLineLosesNoSlot(t *testing.T) {
	t.Parallel()
	const slots = 3
	l := &line{free: slots, most: 20, waiting: map[string][]*waiter{}}
	var group sync.WaitGroup
	for i := range 400 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				go cancel()
			}
			defer cancel()
			switch err := l.enter(ctx, strconv.Itoa(i%7)); {
			case err == nil:
				l.leave()
			case errors.Is(err, context.Canceled), fault.Is(err, fault.CodeUnavailable):
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if l.free != slots || l.crowded() || len(l.turns) != 0 {
		t.Errorf("left over: %+v", l)
	}
}
