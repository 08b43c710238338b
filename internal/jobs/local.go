package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivertype"
)

// unfinished are the states in which a unique job keeps others out.
var unfinished = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
	rivertype.JobStateRetryable, rivertype.JobStateScheduled,
}

// localDriver is River's SQLite driver with notifications inside the process
// in place of a polled table: one process alone serves a SQLite database, and
// a job should begin within milliseconds of its commit.
type localDriver struct {
	*riversqlite.Driver
	hub *hub
}

func newLocalDriver(db *sql.DB, h *hub) riverdriver.Driver[*sql.Tx] {
	return &localDriver{Driver: riversqlite.New(db), hub: h}
}

// GetListener implements riverdriver.Driver.
func (d *localDriver) GetListener(*riverdriver.GetListenenerParams) riverdriver.Listener {
	return &listener{hub: d.hub, ch: make(chan *riverdriver.Notification, 64)}
}

// SupportsListener implements riverdriver.Driver.
func (d *localDriver) SupportsListener() bool { return true }

// SupportsListenNotify implements riverdriver.Driver: no rows are written.
func (d *localDriver) SupportsListenNotify() bool { return false }

// insertTopic is River's topic for "a job was inserted".
const insertTopic = "river_insert"

// hub passes the commit of an insert on to the listeners.
type hub struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
}

func (h *hub) inserted(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		select {
		case l.ch <- &riverdriver.Notification{Topic: insertTopic, Payload: fmt.Sprintf(`{"queue":%q}`, queue)}:
		default: // full: the fetch that is already due sees this job too
		}
	}
}

// listener implements riverdriver.Listener.
type listener struct {
	hub *hub
	ch  chan *riverdriver.Notification
}

// Connect implements riverdriver.Listener.
func (l *listener) Connect(context.Context) error {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.hub.listeners == nil {
		l.hub.listeners = map[*listener]struct{}{}
	}
	l.hub.listeners[l] = struct{}{}
	return nil
}

// Close implements riverdriver.Listener.
func (l *listener) Close(context.Context) error {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	delete(l.hub.listeners, l)
	return nil
}

// Listen, Unlisten, Ping, Schema and SetAfterConnectExec have nothing to do
// inside one process.
func (l *listener) Listen(context.Context, string) error { return nil }

// Unlisten implements riverdriver.Listener.
func (l *listener) Unlisten(context.Context, string) error { return nil }

// Ping implements riverdriver.Listener.
func (l *listener) Ping(context.Context) error { return nil }

// Schema implements riverdriver.Listener.
func (l *listener) Schema() string { return "" }

// SetAfterConnectExec implements riverdriver.Listener.
func (l *listener) SetAfterConnectExec(string) {}

// WaitForNotification implements riverdriver.Listener.
func (l *listener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	select {
	case n := <-l.ch:
		return n, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
