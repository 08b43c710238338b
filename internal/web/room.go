package web

import "slices"

// Bodies that have no room do not wait: strangers who send a byte now and then
// could keep all the room for ever. Instead what comes slowly gives way to who
// holds less, so that the many bodies of a few never keep out the one of another.

// begin says that r is being received; stop ends its reading at once.
func (b *budget) begin(r *receipt, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.stop = stop
	b.coming[r.holder] = append(b.coming[r.holder], r)
}

// arrived says that r is received or given up, and reports whether it kept its
// place until now.
func (b *budget) arrived(r *receipt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(r)
	return !r.ended
}

// unlessEnded calls f, which no end of r can fall into.
func (b *budget) unlessEnded(r *receipt, f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.ended {
		f()
	}
}

// takeFor gives n bytes more to what is being received, or errFull or errShare.
func (b *budget) takeFor(r *receipt, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.ended {
		return errFull
	}
	if b.by[r.holder]+n > b.share {
		return errShare
	}
	for b.taken+n > b.total {
		if !b.makeRoom(b.by[r.holder] + n) {
			return errFull
		}
	}
	b.add(r.holder, n)
	r.size += n
	return nil
}

// makeRoom ends the oldest of what the holder sends who holds most, and more
// than that.
func (b *budget) makeRoom(than int64) bool {
	largest := ""
	for holder := range b.coming {
		if held := b.by[holder]; held > than {
			largest, than = holder, held
		}
	}
	if largest == "" {
		return false
	}
	for _, r := range b.coming[largest] {
		if r.size > 0 {
			b.add(largest, -r.size)
			r.size, r.ended = 0, true
			b.forget(r)
			r.stop()
			return true
		}
	}
	return false
}

func (b *budget) forget(r *receipt) {
	left := slices.DeleteFunc(b.coming[r.holder], func(other *receipt) bool { return other == r })
	if b.coming[r.holder] = left; len(left) == 0 {
		delete(b.coming, r.holder)
	}
}
