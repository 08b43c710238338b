package names

import "slices"

// verdict is what a user may do with a name.
type verdict int

const (
	verdictFree     verdict = iota // no claim is in the way, the user may order
	verdictOwn                     // the user holds it, or may by a grant
	verdictTaken                   // another user holds it
	verdictReserved                // it is this server's
	verdictUnproved                // the user must prove it first
)

// holding is a claim as far as the rules look at it.
type holding struct {
	id     int64
	userID int64 // 0: of a user who is gone
	name   string
	lapsed bool
	state  string
	grants []permit // to the user who asks
}

// permit is a grant to the user who asks.
type permit struct {
	pattern string
	ended   bool // the holder ended it: what is there renews for a while
}

// matches tells whether the pattern is for the name: itself, or with *. in
// front for one label below. A wildcard certificate matches none.
func (p permit) matches(name string) bool {
	if isWildcard(name) {
		return false
	}
	if upper, ok := cutWildcard(p.pattern); ok {
		return parent(name) == upper
	}
	return p.pattern == name
}

// asker is who wants the name, and for what.
type asker struct {
	userID   int64
	admin    bool
	existing bool // a certificate that was issued for these names already
}

// rules are the settings that the verdict depends on.
type rules struct {
	proved   bool // policy: nothing without a proof
	reserved Reserved
}

// decide judges one name. held are the claims in the name's registrable domain,
// and the user's own clashes.
func (r rules) decide(name string, who asker, held []holding) verdict {
	if r.reserved.Has(name) {
		if who.admin { // whoever holds the domain around it
			return verdictFree
		}
		return verdictReserved
	}
	if nearest, ok := nearestOf(name, held); ok {
		return nearest.verdict(name, who, held)
	}
	_, exact := Domain(name)
	switch {
	case isIP(name):
		// A validation that this server answers shows that the address is its own.
		if !who.admin {
			return verdictReserved
		}
		return verdictFree
	case clash(name, who, held):
		return verdictOwn
	case exact && isWildcard(name): // all that is registered below a suffix
		return verdictUnproved
	case slices.ContainsFunc(held, func(h holding) bool { return h.state == stateHeld && h.userID != who.userID }):
		return verdictUnproved
	case r.proved:
		return verdictUnproved
	}
	return verdictFree
}

func nearestOf(name string, held []holding) (holding, bool) {
	for _, at := range path(name) {
		for _, h := range held {
			if h.state == stateHeld && h.name == at {
				return h, true
			}
		}
	}
	return holding{}, false
}

func (h holding) verdict(name string, who asker, held []holding) verdict {
	switch {
	case h.userID == who.userID && !h.lapsed:
		return verdictOwn
	case h.userID == who.userID:
		return verdictUnproved
	case slices.ContainsFunc(h.grants, func(p permit) bool { return p.matches(name) && (!p.ended || who.existing) }):
		if h.lapsed {
			return verdictUnproved
		}
		return verdictOwn
	case clash(name, who, held):
		return verdictOwn
	}
	return verdictTaken
}

// clash tells whether the user's certificates there are older than claims are:
// they go on renewing.
func clash(name string, who asker, held []holding) bool {
	return who.existing && slices.ContainsFunc(held, func(h holding) bool {
		return h.state == stateClash && h.userID == who.userID && covers(h.name, name)
	})
}
