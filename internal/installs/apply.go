package installs

import (
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/fault"
)

// apply gives the items after all patches, not checked yet. A patch changes
// every item it matches; one that matches none is 5003.
func apply(items []Item, patches []Patch) ([]Item, error) {
	items = slices.Clone(items)
	for i, p := range patches {
		matched := false
		commands := slices.ContainsFunc(items, func(it Item) bool { return p.matches(&it) && it.Type == typeExec })
		for j := range items {
			if p.matches(&items[j]) {
				p.change(&items[j], commands)
				matched = true
			}
		}
		if !matched {
			f := fault.NotFound("install step")
			f.What = fmt.Sprintf("patches[%d]: no install step of the device matches its ob_type, ob_id and id; nothing was changed.", i)
			return nil, f
		}
	}
	return items, nil
}

// matches looks at members that no patch changes, so the order of patches does
// not matter for what they match.
func (p *Patch) matches(it *Item) bool {
	return p.ObType == it.ObType && p.ObID == it.ObID && (p.ID == "" || p.ID == it.ID)
}

// change leaves out what an item cannot have where another one that the patch
// matches can: a copy of a certificate and the command after it may name the same
// object. commands tells that an exec item is matched.
func (p *Patch) change(it *Item, commands bool) {
	if p.Type != "" {
		it.Type = p.Type
	}
	if p.Enabled != nil {
		it.Enabled = p.Enabled
	}
	if p.To != nil && (it.Type != typeExec || p.ID != "") {
		it.To = p.To.of(it.From)
	}
	if p.Timeout != 0 {
		it.TimeoutMS = p.Timeout
	}
	if commands && it.Type != typeExec && it.ObType == obCert {
		return
	}
	if p.Cmd != nil || len(p.Argv) > 0 {
		it.Cmd, it.CmdArgv = p.Cmd, p.Argv
	}
	if len(p.Env) > 0 {
		it.Env = p.Env
	}
}

// of gives one target for each name in from.
func (t *Targets) of(from []string) []string {
	if !t.One {
		return t.List
	}
	if len(from) <= 1 {
		return []string{t.Text}
	}
	to := make([]string, len(from))
	for i, name := range from {
		if t.Text != "" {
			to[i] = joinFolder(t.Text, name)
		}
	}
	return to
}
