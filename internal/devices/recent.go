package devices

import "sync"

// recentSize bounds each half of a recent map.
const recentSize = 1 << 15

// recent is a map that forgets what was not used lately, in two halves: when
// the young half is full it becomes the old one, and the old one goes. Reads of
// the young half take only a read lock. The zero value is ready.
type recent[K comparable, V any] struct {
	mu         sync.RWMutex
	young, old map[K]V
}

func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.RLock()
	v, ok := r.young[key]
	if ok {
		r.mu.RUnlock()
		return v, true
	}
	v, ok = r.old[key]
	r.mu.RUnlock()
	if ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		if v, ok = r.old[key]; ok { // still there: it was not deleted meanwhile
			r.store(key, v)
		} else {
			v, ok = r.young[key]
		}
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store(key, v)
}

// putIf is put unless the condition, asked under the lock, has ceased to hold.
func (r *recent[K, V]) putIf(key K, v V, condition func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if condition() {
		r.store(key, v)
	}
}

func (r *recent[K, V]) store(key K, v V) {
	if r.young == nil || len(r.young) >= recentSize {
		r.old, r.young = r.young, make(map[K]V)
	}
	delete(r.old, key)
	r.young[key] = v
}

func (r *recent[K, V]) remove(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.young, key)
	delete(r.old, key)
}
