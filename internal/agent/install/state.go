package install

import (
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/agent/statedir"
)

const stateName = "items.json"

// The states of an item.
const (
	StatusOK      = "ok"
	StatusFailed  = "failed"
	StatusWaiting = "waiting" // for its private key or certificate
	StatusBlocked = "blocked" // by an item it belongs with
)

// State is what the agent remembers of its items.
type State struct {
	Items map[string]*ItemState `json:"items"`
	// Script is the after_update_script that still has to run, as text.
	Script      string     `json:"script,omitempty"`
	ScriptState *ItemState `json:"script_state,omitempty"`
	Reports     []Report   `json:"reports,omitempty"`
}

// ItemState is what became of one item.
type ItemState struct {
	Type   string          `json:"type"`
	Ref    Ref             `json:"ref"`
	Files  []InstalledFile `json:"files,omitempty"`
	Serial string          `json:"serial,omitempty"`
	// NotAfterMS and InstalledAtMS are Unix ms.
	NotAfterMS    int64 `json:"not_after_ms,omitempty"`
	InstalledAtMS int64 `json:"installed_at_ms,omitempty"`
	// Done says for what a command last succeeded.
	Done string `json:"done,omitempty"`

	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	Failures  int    `json:"failures,omitempty"`
	RetryAtMS int64  `json:"retry_at_ms,omitempty"` // Unix ms
	// Wanted is the goal that failed: a new one is tried at once.
	Wanted string `json:"wanted,omitempty"`
}

// InstalledFile is a file as it was put in place.
type InstalledFile struct {
	From   string `json:"from"`
	To     string `json:"to"`
	SHA256 string `json:"sha256"`
	Source string `json:"source"`
}

// Report is one outcome to tell the server about.
type Report struct {
	ItemID string `json:"item_id"`
	CertID int64  `json:"cert_id,omitempty"`
	Serial string `json:"serial,omitempty"`
	Status string `json:"status"` // ok or failed
	Error  string `json:"error,omitempty"`
	TSMS   int64  `json:"ts_ms"` // Unix ms
}

const maxReports = 200

func (s *State) report(r Report) {
	s.Reports = append(s.Reports, r)
	if n := len(s.Reports); n > maxReports {
		s.Reports = s.Reports[n-maxReports:]
	}
}

// item gives the state of an item, making an empty one.
func (s *State) item(id string) *ItemState {
	if s.Items[id] == nil {
		s.Items[id] = &ItemState{}
	}
	return s.Items[id]
}

// LoadState reads the remembered state for looking at it.
func LoadState(dir *statedir.Dir) (*State, error) {
	s := &State{}
	if _, err := dir.Read(stateName, s); err != nil {
		return nil, err
	}
	if s.Items == nil {
		s.Items = map[string]*ItemState{}
	}
	return s, nil
}

// load reads the state once. A damaged file is set aside: everything is then
// compared with the disk again, and every command runs once more.
func (e *Engine) load() error {
	if e.state != nil {
		return nil
	}
	s, err := LoadState(e.State)
	if errors.Is(err, statedir.ErrDamaged) {
		e.Log.Error("install state is damaged and starts anew", "cause", err)
		if err := e.State.SetAside(stateName); err != nil {
			return fmt.Errorf("set damaged state aside: %w", err)
		}
		s, err = LoadState(e.State)
	}
	if err != nil {
		return err
	}
	e.state = s
	return nil
}

func (e *Engine) save() error { return e.State.Write(stateName, e.state) }

// TakeReports hands over the outcomes not yet told to the server; Reported
// drops them.
func (e *Engine) TakeReports() ([]Report, error) {
	if err := e.load(); err != nil {
		return nil, err
	}
	return append([]Report(nil), e.state.Reports...), nil
}

// Reported drops the n oldest outcomes: the server has them.
func (e *Engine) Reported(n int) error {
	e.state.Reports = e.state.Reports[n:]
	return e.save()
}
