package identity

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"certharbor.dev/certharbor/internal/fault"
)

func free() error { return nil }

// TestRealHash goes once through argon2id itself.
func TestRealHash(t *testing.T) {
	t.Parallel()
	p := newPasswords(1, slog.New(slog.DiscardHandler))
	stored, err := p.hash(t.Context(), adaPass, nil)
	if err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("hash: %s, %v", stored, err)
	}
	again, err := p.hash(t.Context(), adaPass, nil)
	if err != nil || again == stored {
		t.Errorf("two hashes of one password are equal: %v", err)
	}
	for password, want := range map[string]bool{adaPass: true, wrongPas: false, adaPass + " ": false} {
		if got, err := p.matches(t.Context(), password, stored, free); got != want || err != nil {
			t.Errorf("%q matches: %v, %v", password, got, err)
		}
	}
}

// held blocks every hash until release is closed.
type held struct {
	*passwords
	running, most atomic.Int64
	started       chan struct{}
	release       chan struct{}
}

func hold(slots int) *held {
	h := &held{passwords: newPasswords(slots, slog.New(slog.DiscardHandler)), started: make(chan struct{}, 1000), release: make(chan struct{})}
	h.derive = func(_, _ []byte, _, _ uint32, _ uint8, n uint32) []byte {
		now := h.running.Add(1)
		for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
		}
		h.started <- struct{}{}
		<-h.release
		h.running.Add(-1)
		return make([]byte, n)
	}
	return h
}

// pretend says how many wait.
func (h *held) pretend(n int) {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.all = n
}

// A slot rests after a hash while others wait for it, so that a flood leaves
// something of the cores; who is alone does not wait.
func TestSlotsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(1, slog.New(slog.DiscardHandler))
		p.derive = func(_, _ []byte, _, _ uint32, _ uint8, n uint32) []byte {
			time.Sleep(40 * time.Millisecond) // of the synthetic clock
			return make([]byte, n)
		}
		for callers, want := range map[int]time.Duration{1: 40 * time.Millisecond, 3: 140 * time.Millisecond} {
			begin := time.Now()
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					if _, err := p.hash(t.Context(), adaPass, nil); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if took := time.Since(begin); took != want {
				t.Errorf("%d hashes took %s, want %s", callers, took, want)
			}
		}
	})
}

func TestHashesAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	h := hold(2)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if ok, err := h.matches(t.Context(), adaPass, "", free); ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
		})
	}
	<-h.started
	<-h.started
	close(h.release)
	wg.Wait()
	if h.most.Load() != 2 {
		t.Errorf("%d hashes at once, want 2", h.most.Load())
	}
}

func TestQueueEndsWithItsContext(t *testing.T) {
	t.Parallel()
	h := hold(1)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = h.hash(t.Context(), adaPass, nil) })
	<-h.started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.matches(ctx, adaPass, "", free); !errors.Is(err, context.Canceled) {
		t.Errorf("matches: %v", err)
	}
	if _, err := h.hash(ctx, adaPass, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("hash: %v", err)
	}
	close(h.release)
	wg.Wait()
	if h.line.crowded() {
		t.Errorf("%d are still counted as waiting", h.line.all)
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	h := hold(1)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = h.hash(t.Context(), adaPass, nil) })
	<-h.started
	h.pretend(waitingPerSlot)
	_, err := h.hash(t.Context(), adaPass, nil)
	if !fault.Is(err, fault.CodeUnavailable) || fault.As(err).RetryAfter == 0 {
		t.Errorf("one too many: %v", err)
	}
	h.pretend(0)
	close(h.release)
	wg.Wait()
}

// TestWhatIsNotPaidForIsNotLookedAt: beside the hash or before it, a refusal ends
// the attempt; while others wait it saves the hash.
func TestWhatIsNotPaidForIsNotLookedAt(t *testing.T) {
	t.Parallel()
	stored, err := newPasswords(1, slog.New(slog.DiscardHandler)).hash(t.Context(), adaPass, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	for _, waiting := range []int{0, 1} {
		h := hold(1)
		close(h.release)
		h.pretend(waiting)
		if ok, err := h.matches(t.Context(), adaPass, stored, func() error { return stop }); ok || !errors.Is(err, stop) {
			t.Errorf("%v, %v", ok, err)
		}
		if hashed := len(h.started) > 0; hashed != (waiting == 0) {
			t.Errorf("%d waiting: hashed %v", waiting, hashed)
		}
	}
}
