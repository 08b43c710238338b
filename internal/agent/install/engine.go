package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"certharbor.dev/certharbor/internal/agent/clock"
	"certharbor.dev/certharbor/internal/agent/material"
	"certharbor.dev/certharbor/internal/agent/statedir"
)

// Engine carries out install-configs. Its fields are set before use; one
// goroutine uses it at a time, holding the lock of State.
type Engine struct {
	State    *statedir.Dir
	Clock    clock.Clock
	Log      *slog.Logger
	TrustDir string   // where import_ca puts CAs; "" = import_ca fails
	Env      []string // of commands, NAME=value
	Own      []string // paths of files of the agent itself, which are never targets
	// Crash, when set, is called at every point a kill could strike, with the
	// point's name. Only tests set it.
	Crash func(point string)
	// Step, when set, is called before each system call on a name in a target's
	// folder or on the way to it. Only tests set it.
	Step func(op, path string)

	state *State
}

func (e *Engine) crash(point string) {
	if e.Crash != nil {
		e.Crash(point)
	}
}

// Supply is what the server gave: objects, and the reasons for missing ones.
// An object in neither map is taken to be unchanged.
type Supply struct {
	Objects map[Ref]*material.Object
	Errors  map[Ref]error
	Waiting map[Ref]bool // whose error passes by itself
}

// Result is the outcome of one item.
type Result struct {
	ItemID  string `json:"item_id"`
	Status  string `json:"status"`
	Error   string `json:"error,omitempty"`
	Changed bool   `json:"changed,omitempty"`
	// Deferred: it failed before and is not tried again yet.
	Deferred bool `json:"deferred,omitempty"`
}

// Options change one Apply.
type Options struct {
	Force         bool // install and run everything, changed or not
	IgnoreBackoff bool // try again at once what failed before
}

// Apply brings files and services to what cfg asks for and gives an outcome
// for every enabled item. An error says that the state folder cannot be used;
// what items do wrong is in their results.
func (e *Engine) Apply(ctx context.Context, cfg Config, in Supply, opt Options) ([]Result, error) {
	// A full disk may have left a transaction open in this very process.
	if err := e.resume(ctx); err != nil {
		return nil, err
	}
	g := e.newGraph(cfg)
	e.forgetItems(g)
	var results []Result
	for _, members := range g.groups() {
		if ctx.Err() != nil {
			return results, fmt.Errorf("stopped between two groups: %w", context.Cause(ctx))
		}
		some, err := e.applyGroup(ctx, g, members, in, posixScript(cfg.AfterUpdateScript), opt)
		if err != nil {
			return results, err
		}
		results = append(results, some...)
	}
	if e.state.Script != "" && posixScript(cfg.AfterUpdateScript) == "" {
		e.state.Script, e.state.ScriptState = "", nil // it is not asked for any more
		if err := e.save(); err != nil {
			return results, err
		}
	}
	script, err := e.runScript(ctx, opt.IgnoreBackoff)
	if script != nil {
		results = append(results, *script)
	}
	return results, err
}

// forgetItems drops what is remembered of items that are gone.
func (e *Engine) forgetItems(g *graph) {
	for id := range e.state.Items {
		if !slices.ContainsFunc(g.nodes, func(n node) bool { return n.item.ID == id }) {
			delete(e.state.Items, id)
		}
	}
}

func (e *Engine) applyGroup(ctx context.Context, g *graph, members []int, in Supply, script string, opt Options) ([]Result, error) {
	all := e.views(g, members, in, opt.Force)
	want := goal(members, all)
	if r := deferred(members, all, want, e.Clock.Now().UnixMilli()); r != nil && !opt.IgnoreBackoff {
		return r, nil
	}
	for {
		j := newJournal(g, members, all, want)
		j.Script = script
		failed, err := e.transact(ctx, j)
		if err != nil && failed < 0 {
			return nil, err
		}
		if err == nil {
			return e.settle(members, all, j)
		}
		// The item could not even be prepared. Nothing has changed yet: decide
		// again what goes on without it.
		all[failed].err = err
		g.decide(members, all, opt.Force)
	}
}

// deferred gives the results of a group that failed for this very goal and is
// not to be tried again yet; else nil.
func deferred(members []int, all map[int]*view, want string, nowMS int64) []Result {
	due := true
	for _, i := range members {
		if s := all[i].state; s.Status == StatusFailed && s.Wanted == want && nowMS < s.RetryAtMS {
			due = false
		}
	}
	if due {
		return nil
	}
	var results []Result
	for _, i := range members {
		s := all[i].state
		results = append(results, Result{ItemID: all[i].item.ID, Status: s.Status, Error: s.Error, Deferred: true})
	}
	return results
}

// newJournal makes the steps of what is due in a group, in order.
func newJournal(g *graph, members []int, all map[int]*view, want string) *journal {
	j := &journal{Goal: want}
	for _, i := range members {
		v := all[i]
		if v.out() || (len(v.changes) == 0 && !v.run) {
			continue
		}
		s := &step{
			node: i, ItemID: v.item.ID, Files: v.changes, ContinueOnError: v.item.ContinueOnError,
			Check: v.item.Verify.TLS, CheckMS: v.item.TimeoutMS, Serials: []string{v.serial},
			Outcome: ItemState{Type: v.item.Type, Ref: v.item.ref(), Files: v.files, Serial: v.serial, NotAfterMS: v.expires, Done: v.done},
		}
		if v.run {
			s.Process = &process{Cmd: v.item.Cmd, Env: v.item.Env, RunAs: v.item.RunAs, TimeoutMS: v.item.TimeoutMS}
			s.Serials = nil
			for _, t := range g.triggers(i) {
				if _, serial := all[t].after(); serial != "" {
					s.Serials = append(s.Serials, serial)
				}
			}
		}
		j.Steps = append(j.Steps, s)
	}
	return j
}

// transact carries out a journal. A failure that was restored and recorded is
// no error here. When an item cannot be prepared it gives its node; other
// errors, with -1, come from the state folder or from restoring.
func (e *Engine) transact(ctx context.Context, j *journal) (int, error) {
	if len(j.Steps) == 0 {
		return -1, nil
	}
	defer j.close()
	failed, err := e.stage(j)
	if err != nil {
		if undoErr := errors.Join(e.unstage(j), e.dropJournal()); undoErr != nil || failed < 0 {
			return -1, errors.Join(err, undoErr)
		}
		return j.Steps[failed].node, err
	}
	e.crash("staged")
	j.Phase = phaseCommitting
	if err := e.saveJournal(j); err != nil {
		return -1, errors.Join(err, e.unstage(j), e.dropJournal())
	}
	e.crash("committing")
	return -1, e.commit(ctx, j)
}
