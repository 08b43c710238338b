package feed

import (
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/web"
)

const (
	// maxHeads bounds the memory; devices beyond it cost a query per poll.
	maxHeads = 50_000
	// maxWaiting bounds the long polls that wait, and maxOfDevice those of one
	// device: further ones are answered at once, as if their time were over.
	maxWaiting  = 3000
	maxOfDevice = 16
	// sharedAge is how long a head is believed on a database that other
	// processes write too.
	sharedAge = time.Second
	// settleAge is longer than any transaction lasts.
	settleAge = time.Minute
)

// heads holds the newest id of each device that polls. On SQLite one process
// serves a data folder, so a head is true until this process appends; on
// PostgreSQL it is believed for sharedAge.
//
// A transaction that ends without its hint (rolled back, or its commit not
// confirmed) must not leave a wrong head behind: from Append on, until the hint
// of that append or of a later one comes, the head is not believed and polls
// ask the database. Heads only grow, so a read that was overtaken by a commit
// cannot set one back.
type heads struct {
	shared   bool
	interval string // X-Poll-Interval

	mu      sync.Mutex
	of      map[int64]*head
	waiting int // long polls
}

type head struct {
	known     bool
	at        Cursor
	seen      time.Time // when the read that gave it began, or the hint came
	pending   Cursor    // an append whose end is not known; zero: none
	pendingAt time.Time
	nothing   *web.Reply[Page] // the rendered 204
	changed   chan struct{}    // closed when at grows; nil: nobody waits
	waiting   int              // long polls
	users     int              // waiters and readers: not to be evicted
}

func newHeads(shared bool, interval string) *heads {
	return &heads{shared: shared, interval: interval, of: map[int64]*head{}}
}

// idle gives the answer for a device that has everything, or nil when the
// database must be asked.
func (hs *heads) idle(deviceID int64, after Cursor) *web.Reply[Page] {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.of[deviceID]
	if h == nil || !h.known || h.at != after || h.pending != (Cursor{}) {
		return nil
	}
	if hs.shared && time.Since(h.seen) > sharedAge {
		return nil
	}
	return h.nothing
}

// use pins the head of a device and gives a channel that is closed when it
// grows; release lets it go.
func (hs *heads) use(deviceID int64) *head {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.get(deviceID)
	h.users++
	return h
}

func (hs *heads) release(h *head) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.users--
}

// sit takes a place for a long poll that waits, if there is one; stand leaves it.
func (hs *heads) sit(h *head) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.waiting >= maxWaiting || h.waiting >= maxOfDevice {
		return false
	}
	hs.waiting++
	h.waiting++
	return true
}

func (hs *heads) stand(h *head) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.waiting--
	h.waiting--
}

// growth is closed when the head grows. Take it before looking at the stream.
func (hs *heads) growth(h *head) <-chan struct{} {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// observed records what a read that began at began found.
func (hs *heads) observed(h *head, at Cursor, began time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if at.Compare(h.pending) >= 0 || began.Sub(h.pendingAt) > settleAge {
		h.pending = Cursor{}
	}
	hs.grow(h, at, began)
}

// appended records that a transaction has written at and not ended yet.
func (hs *heads) appended(deviceID int64, at Cursor) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.get(deviceID)
	h.pending, h.pendingAt = at, time.Now()
}

// committed records the end of that transaction and wakes who waits.
func (hs *heads) committed(deviceID int64, at Cursor) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.get(deviceID)
	if at.Compare(h.pending) >= 0 {
		h.pending = Cursor{}
	}
	hs.grow(h, at, time.Now())
}

func (hs *heads) grow(h *head, at Cursor, seen time.Time) {
	if h.known && at.Compare(h.at) < 0 {
		return
	}
	if seen.After(h.seen) {
		h.seen = seen
	}
	if h.known && at == h.at {
		return
	}
	h.known, h.at, h.nothing = true, at, nothing(at, hs.interval)
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

func (hs *heads) get(deviceID int64) *head {
	h := hs.of[deviceID]
	if h == nil {
		if len(hs.of) >= maxHeads {
			hs.evict()
		}
		h = &head{}
		hs.of[deviceID] = h
	}
	return h
}

// evict drops a head that nobody uses, if one is found soon; map order is
// random enough.
func (hs *heads) evict() {
	tries := 64
	for id, h := range hs.of {
		if h.users == 0 && (h.pending == (Cursor{}) || time.Since(h.pendingAt) > settleAge) {
			delete(hs.of, id)
			return
		}
		if tries--; tries == 0 {
			return
		}
	}
}
