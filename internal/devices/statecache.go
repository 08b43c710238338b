package devices

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// otherProcessAge bounds how old a remembered state may be that another
	// process can change: devices on PostgreSQL, users everywhere (the
	// certharbor command disables them).
	otherProcessAge = time.Second
	// oneProcessAge bounds it on SQLite, where every change of a device goes
	// through this process and forgets the state itself.
	oneProcessAge = time.Minute
)

// stateCache remembers rows by id. Whoever changes a row calls forget after the
// transaction, whatever its outcome: a commit that was not confirmed may have
// happened.
type stateCache[V any] struct {
	maxAge time.Duration
	epoch  atomic.Uint64 // grows with every forget
	m      recent[int64, *remembered[V]]
}

type remembered[V any] struct {
	value  V
	loaded int64 // Unix ns
}

func newStateCache[V any](maxAge time.Duration) *stateCache[V] {
	return &stateCache[V]{maxAge: maxAge}
}

// get returns the remembered value or the one that load reads.
func (c *stateCache[V]) get(ctx context.Context, id int64, now time.Time, load func(context.Context, int64) (V, error)) (*V, error) {
	if r, ok := c.m.get(id); ok {
		if age := now.UnixNano() - r.loaded; age >= 0 && age < int64(c.maxAge) {
			return &r.value, nil
		}
	}
	epoch := c.epoch.Load()
	value, err := load(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &remembered[V]{value: value, loaded: now.UnixNano()}
	// Unless a change was forgotten meanwhile, which this may have been read before.
	c.m.putIf(id, r, func() bool { return c.epoch.Load() == epoch })
	return &r.value, nil
}

func (c *stateCache[V]) forget(id int64) {
	c.epoch.Add(1) // before the removal: a putIf that still passes is removed
	c.m.remove(id)
}
