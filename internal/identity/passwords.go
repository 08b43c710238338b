package identity

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/crypto/argon2"
)

// waitingPerSlot bounds the queue for hashing: at 30 to 40 ms a hash the last
// one in waits about ten seconds.
const waitingPerSlot = 256

// passwords hashes. Hashing takes a core for 30 to 40 ms and 19 MiB, so only so
// many run at once and the others wait their turn.
type passwords struct {
	line   *line
	log    *slog.Logger
	derive func(password, salt []byte, time, memory uint32, threads uint8, keyLen uint32) []byte
}

// newPasswords runs at most slots hashes at once; 0 means half of the cores, so
// that a flood of sign-ins leaves the other half to everybody else.
func newPasswords(slots int, log *slog.Logger) *passwords {
	if slots <= 0 {
		slots = max(1, runtime.GOMAXPROCS(0)/2)
	}
	l := &line{free: slots, most: slots * waitingPerSlot, waiting: map[string][]*waiter{}}
	return &passwords{line: l, log: log, derive: argon2.IDKey}
}

// rest is the part of its time for which a slot stays empty while others wait
// for it: a flood then takes four fifths of the cores that hashing may have, and
// whoever is signed in gets the rest. Nobody rests who is alone.
const rest = 4

// enter waits for a slot, at most until ctx ends; leave gives it back.
func (p *passwords) enter(ctx context.Context) (leave func(), err error) {
	if err := p.line.enter(ctx, addressKey(ctx)); err != nil {
		return nil, err
	}
	begin := time.Now()
	return func() { p.leave(time.Since(begin)) }, nil
}

func (p *passwords) leave(taken time.Duration) {
	if !p.line.crowded() {
		p.line.leave()
		return
	}
	time.AfterFunc(taken/rest, p.line.leave)
}

// hash gives the PHC string under which the password is stored. before, unless
// nil, runs when the turn has come; its error ends the attempt.
func (p *passwords) hash(ctx context.Context, password string, before func() error) (string, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if before != nil {
		if err := before(); err != nil {
			return "", err
		}
	}
	h := newPHC()
	h.key = p.derive([]byte(password), h.salt, h.time, h.memory, h.threads, argonKey)
	return h.String(), nil
}

// matches reports whether the password is the stored one. It hashes exactly
// once whatever stored is: an empty or broken one matches nothing, at the same
// cost. spend pays for the try when the turn has come, before anything is
// compared; its error ends the attempt. While others wait it is done before the
// hash, which a refusal then saves; otherwise beside it.
func (p *passwords) matches(ctx context.Context, password, stored string, spend func() error) (bool, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	spent := make(chan error, 1)
	go func() { spent <- spend() }()
	if p.line.crowded() {
		if err := <-spent; err != nil {
			return false, err
		}
		spent <- nil
	}
	h, known := dummyPHC(), 0
	if stored != "" {
		if parsed, err := parsePHC(stored); err == nil {
			h, known = parsed, 1
		} else {
			p.log.ErrorContext(ctx, "a stored password hash cannot be read")
		}
	}
	key := p.derive([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.key)))
	if err := <-spent; err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(key, h.key)&known == 1, nil
}
