package install

import "time"

// Want names an object that Apply needs.
type Want struct {
	Ref Ref
	Key bool // with its private key
}

// Needs gives the objects Apply cannot do without: those stale says may have
// changed, and those whose files are not in place as remembered.
func (e *Engine) Needs(cfg Config, stale func(Ref) bool) ([]Want, error) {
	if err := e.load(); err != nil {
		return nil, err
	}
	needed, key := map[Ref]bool{}, map[Ref]bool{}
	var order []Ref
	for _, n := range e.newGraph(cfg).nodes {
		if n.err != nil || !n.item.copies() || len(n.targets) == 0 {
			continue
		}
		ref, st := n.item.ref(), e.remembered(n.item)
		if _, seen := needed[ref]; !seen {
			order = append(order, ref)
		}
		needed[ref] = needed[ref] || stale(ref) || st.Status != StatusOK || !e.stands(st, ref, n.targets)
		for _, t := range n.targets {
			key[ref] = key[ref] || t.from == "private.key" || t.from == "bundle.pfx"
		}
	}
	var list []Want
	for _, ref := range order {
		if needed[ref] {
			list = append(list, Want{Ref: ref, Key: key[ref]})
		}
	}
	return list, nil
}

// NextRetry gives when the earliest failed item or script is due again; the
// zero time when none is.
func (e *Engine) NextRetry() (time.Time, error) {
	if err := e.load(); err != nil {
		return time.Time{}, err
	}
	var next int64
	due := func(s *ItemState) {
		if s != nil && s.Status == StatusFailed && (next == 0 || s.RetryAtMS < next) {
			next = s.RetryAtMS
		}
	}
	for _, s := range e.state.Items {
		due(s)
	}
	if e.state.Script != "" {
		due(e.state.ScriptState)
	}
	if next == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(next), nil
}
