package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/agent/install"
	"certharbor.dev/certharbor/internal/agent/statedir"
)

// Status is what a state folder tells of its device. Times are Unix ms, 0 when
// unknown.
type Status struct {
	State          string       `json:"state"`
	Registered     bool         `json:"registered"`
	Server         string       `json:"server"`
	DeviceID       int64        `json:"device_id"`
	DevicePublicID string       `json:"device_public_id"`
	RunningPID     string       `json:"running_pid"` // "" when no agent runs
	LastContactMS  int64        `json:"last_contact_ms"`
	LastRoundMS    int64        `json:"last_round_ms"`
	LastError      string       `json:"last_error"`
	Cursor         string       `json:"cursor"`
	ConfigVersion  int64        `json:"config_version"`
	Unreported     int          `json:"unreported"` // outcomes the server has not heard of
	Items          []ItemStatus `json:"items"`
}

// ItemStatus is one item of the install-config.
type ItemStatus struct {
	ID            string   `json:"id"`
	Type          string   `json:"type"`
	Status        string   `json:"status"`
	Error         string   `json:"error"`
	Serial        string   `json:"serial"`
	NotAfterMS    int64    `json:"not_after_ms"`
	InstalledAtMS int64    `json:"installed_at_ms"`
	RetryAtMS     int64    `json:"retry_at_ms"`
	Files         []string `json:"files"`
}

// ReadStatus looks at a state folder. It takes no lock and changes nothing.
func ReadStatus(path string) (*Status, error) {
	dir, err := statedir.At(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened for reading only
	var id identity
	var l login
	var s syncState
	if _, err := dir.Read(identityName, &id); err != nil {
		return nil, err
	}
	found, err := dir.Read(sessionName, &l)
	if err != nil {
		return nil, err
	}
	if _, err := dir.Read(syncName, &s); err != nil {
		return nil, err
	}
	items, err := install.LoadState(dir)
	if err != nil {
		return nil, err
	}
	pid, err := dir.Holder()
	if err != nil {
		return nil, err
	}
	a := Agent{sync: s}
	return &Status{
		State: dir.Path(), Registered: found, Server: l.Server, DeviceID: l.DeviceID, DevicePublicID: id.DevicePublicID,
		RunningPID: pid, LastContactMS: s.LastContactMS, LastRoundMS: s.LastRoundMS, LastError: s.LastError,
		Cursor: s.Cursor, ConfigVersion: a.version(), Unreported: len(items.Reports), Items: itemStatuses(items),
	}, nil
}

func itemStatuses(state *install.State) []ItemStatus {
	list := []ItemStatus{}
	add := func(id string, s *install.ItemState) {
		files := []string{}
		for _, f := range s.Files {
			files = append(files, f.To)
		}
		list = append(list, ItemStatus{
			ID: id, Type: s.Type, Status: s.Status, Error: s.Error, Serial: s.Serial,
			NotAfterMS: s.NotAfterMS, InstalledAtMS: s.InstalledAtMS, RetryAtMS: s.RetryAtMS, Files: files,
		})
	}
	for _, id := range slices.Sorted(maps.Keys(state.Items)) {
		add(id, state.Items[id])
	}
	if state.ScriptState != nil {
		add(install.ScriptID, state.ScriptState)
	}
	return list
}

// Print writes the status for people; now is the present time.
func (s *Status) Print(w io.Writer, now time.Time) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-15s "+format+"\n", append([]any{name + ":"}, args...)...)
	}
	if !s.Registered {
		line("device", "not registered; next: certharbor-agent login --server URL")
		_, err := io.WriteString(w, b.String())
		return err
	}
	line("device", "%d at %s", s.DeviceID, s.Server)
	line("public id", "%s", s.DevicePublicID)
	line("agent", "%s", running(s.RunningPID))
	line("last contact", "%s", ago(s.LastContactMS, now))
	if s.LastError != "" {
		line("trouble", "%s", s.LastError)
	}
	line("install-config", "version %d", s.ConfigVersion)
	for _, it := range s.Items {
		fmt.Fprintf(&b, "\n%s (%s): %s\n", it.ID, it.Type, it.Status)
		for _, f := range it.Files {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		if it.Serial != "" {
			fmt.Fprintf(&b, "  serial %s, valid until %s\n", it.Serial, time.UnixMilli(it.NotAfterMS).UTC().Format(time.RFC3339))
		}
		if it.Error != "" && it.Status != install.StatusOK {
			fmt.Fprintf(&b, "  %s\n", it.Error)
		}
		if it.Status == install.StatusFailed {
			fmt.Fprintf(&b, "  next try %s\n", time.UnixMilli(it.RetryAtMS).UTC().Format(time.RFC3339))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func running(pid string) string {
	if pid == "" {
		return "not running; next: certharbor-agent run"
	}
	return "running as process " + pid
}

func ago(ms int64, now time.Time) string {
	if ms == 0 {
		return "never"
	}
	return now.Sub(time.UnixMilli(ms)).Truncate(time.Second).String() + " ago"
}

// InstallConfig fetches the install-config, as served.
func (a *Agent) InstallConfig(ctx context.Context) (json.RawMessage, error) {
	if err := a.usable(); err != nil {
		return nil, err
	}
	raw, err := a.device.InstallConfig(ctx)
	if err != nil {
		return nil, a.unreached(err)
	}
	return raw, nil
}

// StoredInstallConfig gives the install-config as the agent that works on the
// folder last fetched it; nil when it never did.
func StoredInstallConfig(path string) (json.RawMessage, error) {
	dir, err := statedir.At(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened for reading only
	var s syncState
	if _, err := dir.Read(syncName, &s); err != nil {
		return nil, err
	}
	return s.Config, nil
}
