package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/agent/statedir"
)

const syncName = "sync.json"

// syncState is how far this device has followed the server. All of it can be
// fetched again.
type syncState struct {
	Cursor        string          `json:"cursor,omitempty"`
	Config        json.RawMessage `json:"config,omitempty"` // as last fetched
	LastContactMS int64           `json:"last_contact_ms,omitempty"`
	LastRoundMS   int64           `json:"last_round_ms,omitempty"`
	LastError     string          `json:"last_error,omitempty"`

	changed bool // since it was stored
}

// loadSync reads the state; a damaged one is set aside and fetched anew.
func (a *Agent) loadSync() error {
	_, err := a.dir.Read(syncName, &a.sync)
	if errors.Is(err, statedir.ErrDamaged) {
		a.log.Error("sync state is damaged: everything is fetched again", "cause", err)
		a.sync = syncState{}
		err = a.dir.SetAside(syncName)
	}
	if err != nil {
		return fmt.Errorf("load sync state: %w", err)
	}
	return nil
}

// contact notes that the server answered. It is stored once a minute: that
// precision is enough for people, and an idle agent need not write.
func (a *Agent) contact(cursor string) error {
	now := a.clock.Now()
	fresh := now.Sub(time.UnixMilli(a.sync.LastContactMS)).Abs() < time.Minute
	if fresh && !a.sync.changed && a.sync.LastError == "" && (cursor == "" || cursor == a.sync.Cursor) {
		return nil
	}
	a.sync.LastContactMS, a.sync.LastError = now.UnixMilli(), ""
	if cursor != "" {
		a.sync.Cursor = cursor
	}
	return a.saveSync()
}

func (a *Agent) saveSync() error {
	if err := a.dir.Write(syncName, a.sync); err != nil {
		return err
	}
	a.sync.changed = false
	return nil
}

// trouble notes why the server could not be asked.
func (a *Agent) trouble(cause error) error {
	if a.sync.LastError == cause.Error() {
		return nil
	}
	a.sync.LastError = cause.Error()
	return a.saveSync()
}
