package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// view is what one item of a group is about to do.
type view struct {
	node    int
	item    *Item
	state   *ItemState // as remembered, never nil
	err     error      // why it does not take part
	waiting bool       // err passes by itself
	blocked bool
	stands  bool // an earlier version is installed and undisturbed
	changes []change
	files   []InstalledFile // how it will stand afterwards
	serial  string
	expires int64
	run     bool   // a command that is due
	done    string // what a command will have succeeded for
}

// out says whether the item takes no part in this transaction.
func (v *view) out() bool { return v.err != nil || v.blocked }

// holds says whether the item keeps others from going on. One that is installed
// in an earlier version does not: a certificate that cannot be renewed must not
// keep another from being renewed.
func (v *view) holds() bool {
	return !v.stands && (v.blocked || (v.err != nil && !v.item.ContinueOnError))
}

// after gives the files and the serial as they will be after the transaction.
func (v *view) after() ([]InstalledFile, string) {
	switch {
	case !v.out():
		return v.files, v.serial
	case v.stands:
		return v.state.Files, v.state.Serial
	}
	return nil, ""
}

// views looks at every item of a group: what it wants, what is on disk.
func (e *Engine) views(g *graph, members []int, in Supply, force bool) map[int]*view {
	all := map[int]*view{}
	for _, i := range members {
		n := g.nodes[i]
		v := &view{node: i, item: n.item, err: n.err, state: e.remembered(n.item)}
		all[i] = v
		if v.err == nil && len(n.targets) > 0 {
			e.look(v, n.targets, in, force)
		}
	}
	g.decide(members, all, force)
	return all
}

// decide finds what is blocked and which commands are due. It is done again
// when an item drops out.
func (g *graph) decide(members []int, all map[int]*view, force bool) {
	for _, i := range members {
		all[i].blocked, all[i].run = false, false
	}
	g.block(members, all)
	for _, i := range members {
		if all[i].item.Type == typeExec && !all[i].out() {
			g.viewExec(i, all, force)
		}
	}
}

func (e *Engine) remembered(it *Item) *ItemState {
	if s := e.state.Items[it.ID]; s != nil && s.Type == it.Type {
		return s
	}
	return &ItemState{}
}

// look compares what a copy wants with what is on disk.
func (e *Engine) look(v *view, targets []target, in Supply, force bool) {
	object, ref := in.Objects[v.item.ref()], v.item.ref()
	v.stands = e.stands(v.state, ref, targets)
	if object == nil {
		v.err, v.waiting = in.Errors[ref], in.Waiting[ref]
		if v.err == nil && !v.stands {
			v.err = fmt.Errorf("%s was not fetched", ref)
		}
		v.files, v.serial, v.expires = v.state.Files, v.state.Serial, v.state.NotAfterMS
		return
	}
	v.serial, v.expires = object.Serial, object.NotAfter
	for _, t := range targets {
		file, ok := object.Files[t.from]
		if !ok {
			v.err = fmt.Errorf("%s: the server does not deliver %s", ref, t.from)
			return
		}
		if len(file.Data) > maxFile {
			v.err = fmt.Errorf("%s: %s has %d bytes, at most %d are installed", ref, t.from, len(file.Data), maxFile)
			return
		}
		sum := hash(file.Data)
		disk, err := e.sumOf(t.to)
		if err != nil {
			v.err = err
			return
		}
		if old := v.state.file(t); !force && old != nil && old.Source == file.Source && old.SHA256 == disk {
			sum = disk // encoded anew it may have other bytes, but says the same
		}
		v.files = append(v.files, InstalledFile{From: t.from, To: t.to, SHA256: sum, Source: file.Source})
		if disk != sum || force {
			mode := uint32(0o644)
			if file.Secret {
				mode = 0o600
			}
			v.changes = append(v.changes, change{To: t.to, SHA256: hash(file.Data), data: file.Data, mode: mode})
		}
	}
}

// stands says whether the targets are installed from ref and undisturbed.
func (e *Engine) stands(s *ItemState, ref Ref, targets []target) bool {
	for _, t := range targets {
		old := s.file(t)
		if old == nil {
			return false
		}
		if sum, err := e.sumOf(t.to); err != nil || sum != old.SHA256 {
			return false
		}
	}
	return s.Ref == ref
}

func (s *ItemState) file(t target) *InstalledFile {
	i := slices.IndexFunc(s.Files, func(f InstalledFile) bool { return f.From == t.from && f.To == t.to })
	if i < 0 {
		return nil
	}
	return &s.Files[i]
}

// block spreads failures: an item whose written dependency is held does not go
// on; copies whose command is held are not put in place, for nobody would
// reload the service; parts of one object go together or not at all. A command
// that merely follows copies goes on while one of them does.
func (g *graph) block(members []int, all map[int]*view) {
	held := func(i int) bool { return all[i].holds() }
	for changed := true; changed; {
		changed = false
		for _, i := range members {
			v := all[i]
			if v.out() {
				continue
			}
			follows := g.nodes[i].follows
			v.blocked = slices.ContainsFunc(g.nodes[i].explicit, held) ||
				(len(follows) > 0 && !slices.ContainsFunc(follows, func(d int) bool { return !held(d) })) ||
				g.needsHeld(i, members, all)
			changed = changed || v.blocked
		}
	}
}

// needsHeld says whether copy i depends on something later that is held: a
// command, or the other half of its object.
func (g *graph) needsHeld(i int, members []int, all map[int]*view) bool {
	if !g.nodes[i].item.copies() {
		return false
	}
	for _, j := range members {
		other := g.nodes[j]
		if j == i || !all[j].out() {
			continue
		}
		if other.item.Type == typeExec && all[j].holds() && slices.Contains(g.triggers(j), i) {
			return true
		}
		if other.item.copies() && other.item.ref() == g.nodes[i].item.ref() && split(other.targets) && split(g.nodes[i].targets) {
			return true
		}
	}
	return false
}

// viewExec decides whether a command is due.
func (g *graph) viewExec(i int, all map[int]*view, force bool) {
	v := all[i]
	triggers := g.triggers(i)
	v.done = fingerprint(v.item, triggers, all)
	v.run = force || v.done != v.state.Done
	for j, other := range all {
		touched := len(other.changes) > 0 && !other.out()
		// What copies depend on prepares the ground: it runs before each change.
		if touched && (slices.Contains(triggers, j) || slices.Contains(g.prepares(j), i)) {
			v.run = true
		}
	}
}

// prepares gives the commands that copy i depends on and that depend on no
// copy themselves.
func (g *graph) prepares(i int) []int {
	var list []int
	for _, d := range g.nodes[i].explicit {
		if g.nodes[d].item.Type == typeExec && len(g.triggers(d)) == 0 {
			list = append(list, d)
		}
		list = append(list, g.prepares(d)...)
	}
	return list
}

// fingerprint digests what a command stands for: its text and what its files
// are made from.
func fingerprint(it *Item, triggers []int, all map[int]*view) string {
	parts := []any{it.Cmd, it.Env, it.RunAs}
	for _, t := range triggers {
		files, _ := all[t].after()
		for _, f := range files {
			parts = append(parts, f.To, f.Source)
		}
	}
	return digestOf(parts)
}

// goal digests what a group is to reach.
func goal(members []int, all map[int]*view) string {
	var parts []any
	for _, i := range members {
		parts = append(parts, all[i].item.ID, all[i].item.To, all[i].done)
		for _, f := range all[i].files {
			parts = append(parts, f.To, f.Source)
		}
	}
	return digestOf(parts)
}

func digestOf(parts []any) string {
	// Strings, arrays and maps of strings: encoding cannot fail.
	text, _ := json.Marshal(parts) //nolint:errcheck // see above
	return hash(text)
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
