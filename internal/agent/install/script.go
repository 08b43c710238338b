package install

import (
	"context"
	"path/filepath"
	"strings"
)

// ScriptID stands for the after_update_script where items are named.
const ScriptID = "after_update_script"

// posixScript picks what a POSIX system runs: the whole text, or of a text in
// blocks the one named posix.sh ("" when there is none).
func posixScript(text string) string {
	var picked strings.Builder
	blocks, inside := false, false
	for line := range strings.Lines(text) {
		word := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(word, "@@@BEGIN "); ok {
			blocks, inside = true, strings.EqualFold(strings.TrimSpace(name), "posix.sh")
			continue
		}
		if word == "@@@END" {
			inside = false
			continue
		}
		if inside {
			picked.WriteString(line)
		}
	}
	if !blocks {
		return text
	}
	return picked.String()
}

// runScript runs the script that is due, if any, and remembers how it went. It
// stays due until it succeeds.
func (e *Engine) runScript(ctx context.Context, ignoreBackoff bool) (*Result, error) {
	if e.state.Script == "" {
		return nil, nil
	}
	st := e.state.ScriptState
	if st == nil {
		st = &ItemState{Type: ScriptID}
		e.state.ScriptState = st
	}
	now := e.Clock.Now()
	if !ignoreBackoff && st.RetryAtMS > now.UnixMilli() {
		return &Result{ItemID: ScriptID, Status: st.Status, Error: st.Error, Deferred: true}, nil
	}
	if err := e.script(ctx, e.state.Script); err != nil {
		st.fail(err.Error(), "", now)
		e.state.report(Report{ItemID: ScriptID, Status: StatusFailed, Error: st.Error, TSMS: now.UnixMilli()})
		return &Result{ItemID: ScriptID, Status: StatusFailed, Error: st.Error}, e.save()
	}
	e.crash("script-done")
	e.state.Script, e.state.ScriptState = "", &ItemState{Type: ScriptID, Status: StatusOK, InstalledAtMS: now.UnixMilli()}
	return &Result{ItemID: ScriptID, Status: StatusOK, Changed: true}, e.save()
}

// script runs from a file: a text may be longer than an argument can be.
func (e *Engine) script(ctx context.Context, text string) error {
	const name = "after-update.sh"
	if err := e.State.WriteText(name, []byte(text)); err != nil {
		return err
	}
	path := filepath.Join(e.State.Path(), name)
	return e.run(ctx, process{Cmd: Command{Argv: []string{"/bin/sh", path}}, TimeoutMS: scriptTimeout.Milliseconds()})
}
