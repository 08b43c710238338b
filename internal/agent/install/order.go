package install

import (
	"fmt"
	"slices"
)

// node is an enabled item with its place among the others.
type node struct {
	item     *Item
	targets  []target
	err      error // why it cannot be carried out as written
	explicit []int // enabled items it depends on, as written
	follows  []int // copies an exec without depends_on comes after
	root     int   // union-find: items of one group share their root
}

// graph is a config's enabled items. Indexes are positions in nodes.
type graph struct {
	nodes []node
	order []int // every node after those it depends on, else as listed
}

// newGraph checks the items, finds what depends on what, and orders them.
func (e *Engine) newGraph(cfg Config) *graph {
	g := &graph{}
	index := map[string]int{}
	disabled := map[string]bool{}
	written := map[string]string{}
	for i := range cfg.Installs {
		it := &cfg.Installs[i]
		if !it.enabled() {
			disabled[it.ID] = true
			continue
		}
		n := node{item: it, err: e.check(it), root: len(g.nodes)}
		if n.err == nil && it.copies() {
			n.targets = e.targets(it)
			n.err = claim(written, it.ID, n.targets)
		}
		if _, twice := index[it.ID]; twice {
			n.err = fmt.Errorf("id %q is used twice", it.ID)
		} else {
			index[it.ID] = len(g.nodes)
		}
		g.nodes = append(g.nodes, n)
	}
	g.connect(index, disabled)
	g.sort()
	g.group()
	return g
}

// claim refuses a second item for the same file: the two would take turns.
func claim(written map[string]string, id string, list []target) error {
	for _, t := range list {
		if other, taken := written[t.to]; taken {
			return fmt.Errorf("%s is written by item %q already", t.to, other)
		}
		written[t.to] = id
	}
	return nil
}

func (g *graph) connect(index map[string]int, disabled map[string]bool) {
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, id := range n.item.DependsOn {
			j, ok := index[id]
			switch {
			case ok:
				n.explicit = append(n.explicit, j)
			case !disabled[id] && n.err == nil:
				n.err = fmt.Errorf("depends_on names %q, which does not exist", id)
			}
		}
		if n.item.Type != typeExec || len(n.item.DependsOn) > 0 {
			continue
		}
		for j := range i {
			if g.nodes[j].item.copies() {
				n.follows = append(n.follows, j)
			}
		}
	}
}

// deps gives the nodes that come before node i.
func (g *graph) deps(i int) []int {
	return append(slices.Clone(g.nodes[i].explicit), g.nodes[i].follows...)
}

// sort orders the nodes; those on a cycle get an error and come last.
func (g *graph) sort() {
	done := make([]bool, len(g.nodes))
	ready := func(i int) bool {
		return !done[i] && !slices.ContainsFunc(g.deps(i), func(d int) bool { return !done[d] })
	}
	for i := 0; i < len(g.nodes); i++ {
		if ready(i) {
			done[i] = true
			g.order = append(g.order, i)
			i = -1 // the earliest listed one that is ready comes next
		}
	}
	for i := range g.nodes {
		if !done[i] {
			g.nodes[i].err = fmt.Errorf("depends_on of %q goes in a circle", g.nodes[i].item.ID)
			g.order = append(g.order, i)
		}
	}
}

// group joins what must change together.
func (g *graph) group() {
	parts := map[Ref]int{}
	for i := range g.nodes {
		for _, d := range g.deps(i) {
			g.join(i, d)
		}
		n := g.nodes[i]
		if n.err != nil || !n.item.copies() || !split(n.targets) {
			continue
		}
		if other, ok := parts[n.item.ref()]; ok {
			g.join(i, other)
		}
		parts[n.item.ref()] = i
	}
}

func (g *graph) find(i int) int {
	for g.nodes[i].root != i {
		i = g.nodes[i].root
	}
	return i
}

func (g *graph) join(a, b int) { g.nodes[g.find(a)].root = g.find(b) }

// groups gives the groups, each in order.
func (g *graph) groups() [][]int {
	var list [][]int
	at := map[int]int{}
	for _, i := range g.order {
		root := g.find(i)
		if _, ok := at[root]; !ok {
			at[root] = len(list)
			list = append(list, nil)
		}
		list[at[root]] = append(list[at[root]], i)
	}
	return list
}

// triggers gives the copies before node i, directly or through others.
func (g *graph) triggers(i int) []int {
	seen := map[int]bool{i: true}
	var list []int
	var walk func(int)
	walk = func(i int) {
		for _, d := range g.deps(i) {
			if seen[d] {
				continue
			}
			seen[d] = true
			if g.nodes[d].item.copies() {
				list = append(list, d)
			}
			walk(d)
		}
	}
	walk(i)
	slices.Sort(list)
	return list
}
