package agent

import (
	"context"
	"encoding/json"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/install"
)

// task says what a round has to look at again.
type task struct {
	all       bool // everything, whatever is known
	config    bool
	atLeast   int64 // version of the install-config
	objects   map[install.Ref]bool
	resync    bool // the server lost our place in the stream
	force     bool
	impatient bool // try at once what failed before
}

func (t task) stale(r install.Ref) bool { return t.all || t.objects[r] }

func (t task) empty() bool { return !t.all && !t.config && len(t.objects) == 0 && !t.resync }

// taskOf reads what signals name. Unknown types, and references that cannot be
// read, change nothing: a full fetch comes round in time.
func taskOf(signals []client.Signal, version int64) task {
	t := task{objects: map[install.Ref]bool{}}
	for _, s := range signals {
		var ref struct {
			CertID  int64 `json:"cert_id"`
			CAID    int64 `json:"ca_id"`
			Version int64 `json:"version"`
		}
		if json.Unmarshal(s.Ref, &ref) != nil {
			ref.CertID, ref.CAID, ref.Version = 0, 0, 0
		}
		switch s.Type {
		case "install.updated":
			if ref.Version > version || ref.Version == 0 {
				t.config, t.atLeast = true, max(t.atLeast, ref.Version)
			}
		case "cert.updated", "cert.unassigned":
			t.objects[install.Ref{Kind: "cert", ID: ref.CertID}] = true
		case "ca.assigned", "ca.unassigned":
			t.objects[install.Ref{Kind: "ca", ID: ref.CAID}] = true
		case "state.resync_required":
			t.resync, t.all = true, true
		}
	}
	return t
}

// round brings the device up to date with what t names and with what failed or
// drifted before. Its error says that the server could not be asked, or that
// the state folder cannot be used; failed items are in the results.
func (a *Agent) round(ctx context.Context, t task) ([]install.Result, error) {
	cfg, err := a.config(ctx, t)
	if err != nil {
		return nil, err
	}
	stale := t.stale
	if t.force {
		stale = func(install.Ref) bool { return true }
	}
	wants, err := a.engine.Needs(cfg, stale)
	if err != nil {
		return nil, err
	}
	in, err := a.fetch(ctx, wants, t.stale)
	if err != nil {
		return nil, err
	}
	results, err := a.engine.Apply(ctx, cfg, in, install.Options{Force: t.force, IgnoreBackoff: t.impatient})
	if err != nil {
		return results, err
	}
	a.sync.LastRoundMS, a.sync.changed = a.clock.Now().UnixMilli(), true
	return results, a.report(ctx)
}

func (a *Agent) config(ctx context.Context, t task) (install.Config, error) {
	if t.all || t.config || a.sync.Config == nil {
		return a.fetchConfig(ctx, t.atLeast)
	}
	return install.Parse(a.sync.Config)
}

// version gives the version of the install-config as last fetched.
func (a *Agent) version() int64 {
	var cfg struct {
		Version int64 `json:"version"`
	}
	if a.sync.Config == nil || json.Unmarshal(a.sync.Config, &cfg) != nil {
		return 0
	}
	return cfg.Version
}

const (
	reportBatch = 50
	maxReason   = 500 // bytes of an error in a report
)

// report tells the server the outcomes it has not heard of. They are kept
// until it has taken them.
func (a *Agent) report(ctx context.Context) error {
	for {
		reports, err := a.engine.TakeReports()
		if err != nil || len(reports) == 0 {
			return err
		}
		reports = reports[:min(len(reports), reportBatch)]
		var events []any
		for _, r := range reports {
			events = append(events, resultEvent(r))
		}
		err = a.device.Notify(ctx, events...)
		if _, passes := client.Transient(err); err != nil && (passes || away(err)) {
			// What is installed is installed: the next round tells it.
			a.log.WarnContext(ctx, "outcomes could not be reported yet", "cause", err)
			return nil
		}
		if err != nil {
			a.log.WarnContext(ctx, "the server refuses reports; they are dropped", "cause", err)
		}
		if err := a.engine.Reported(len(reports)); err != nil {
			return err
		}
	}
}

// event is an outcome as notify takes it.
type event struct {
	Type string `json:"type"`
	install.Report
}

func resultEvent(r install.Report) event {
	r.Error = r.Error[:min(len(r.Error), maxReason)]
	return event{Type: "install_result", Report: r}
}

// announce tells the server this agent's version, once per process. When that
// does not work now, the next try is as good.
func (a *Agent) announce(ctx context.Context) {
	if a.announced {
		return
	}
	err := a.device.Notify(ctx, map[string]string{
		"type": "agent_version", "agent": "certharbor-agent", "version": a.opt.Version, "device_public_id": a.identity.DevicePublicID,
	})
	if err != nil {
		a.log.WarnContext(ctx, "version could not be announced", "cause", err)
	}
	a.announced = err == nil
}
