package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger is what a client knows of the objects it wrote. Each object has a name
// that the client chose, for example "webhook 17", and a state in one line, ""
// while it does not exist. An object has one writer at a time.
type ledger struct {
	mu      sync.Mutex
	objects map[string]*object
	acked   int           // acknowledged writes
	newest  time.Time     // when the acknowledged write that began last began
	news    chan struct{} // of them, at most one waiting
}

// nothingChanged is what the server says when a write certainly did not happen.
const nothingChanged = "The server's disk is full; nothing was changed."

type object struct {
	state     string // as it was acknowledged last
	attempted string // what an unacknowledged write would make it
	open      bool   // there is such a write
	id        int64  // the server's, 0 while unknown
}

func newLedger() *ledger { return &ledger{objects: map[string]*object{}, news: make(chan struct{}, 1)} }

// write notes that do would bring the object into the state, calls it, and
// notes the acknowledgement unless it returns an error. id is 0 when do learns
// nothing about it.
func (l *ledger) write(name, state string, do func() (id int64, err error)) error {
	l.mu.Lock()
	o := l.objects[name]
	if o == nil {
		o = &object{}
		l.objects[name] = o
	}
	o.attempted, o.open = state, true
	l.mu.Unlock()
	began := time.Now()
	id, err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if r, ok := errors.AsType[*refused](err); ok && strings.Contains(string(r.Body), nothingChanged) {
			o.open = false
		}
		return err
	}
	o.state, o.open = state, false
	if id != 0 || state == "" {
		o.id = id
	}
	l.acked++
	if began.After(l.newest) {
		l.newest = began
	}
	select {
	case l.news <- struct{}{}:
	default:
	}
	return nil
}

// count is the number of acknowledged writes.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// lastBegan is when the acknowledged write that began last began.
func (l *ledger) lastBegan() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// get returns the acknowledged state of an object and its id.
func (l *ledger) get(name string) (state string, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.objects[name]; o != nil {
		return o.state, o.id
	}
	return "", 0
}

// seen is an object as a server shows it.
type seen struct {
	id    int64
	state string
}

// compare finds what was lost, is half there, or was never written. An
// unacknowledged write may have happened or not; from here on it is settled.
func (l *ledger) compare(t *testing.T, found map[string]seen) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range found {
		if l.objects[name] == nil {
			t.Errorf("%s is there, and nobody wrote it: %+v", name, found[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.objects)) {
		o, got := l.objects[name], found[name]
		if got.state != o.state && (!o.open || got.state != o.attempted) {
			t.Errorf("%s is %q, acknowledged was %q%s", name, got.state, o.state, o.also())
		}
		if o.id != 0 && got.id != 0 && got.id != o.id {
			t.Errorf("%s has id %d, was %d", name, got.id, o.id)
		}
		o.state, o.open, o.id = got.state, false, got.id
	}
}

func (o *object) also() string {
	if !o.open {
		return ""
	}
	return fmt.Sprintf(", under way was %q", o.attempted)
}
