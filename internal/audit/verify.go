package audit

import (
	"cmp"
	"context"
	"crypto/hmac"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
)

// verifyBatch is how many rows are read at a time.
const verifyBatch = 1000

// Problem is the first thing that Verify found wrong.
type Problem struct {
	UserID, Lane int64 // whose chain; user 0 and a lane: nobody's
	Seq          int64 // the entry, 0: the chain as a whole
	What         string
}

// Error implements error.
func (p *Problem) Error() string {
	place := fmt.Sprintf("the audit log of user %d", p.UserID)
	if p.UserID == 0 {
		place = fmt.Sprintf("nobody's audit log, chain %d", p.Lane)
	}
	if p.Seq != 0 {
		place += fmt.Sprintf(", entry %d", p.Seq)
	}
	return place + ": " + p.What
}

func (c chain) problem(seq int64, what string, args ...any) error {
	return &Problem{UserID: c.user, Lane: c.lane, Seq: seq, What: fmt.Sprintf(what, args...)}
}

// Verification says what Verify is to compare and to tell; all of it may be nil.
type Verification struct {
	// Users returns the ids of at most limit users whose id is greater than
	// after, in their order. Each must have a log.
	Users func(ctx context.Context, after, limit int64) ([]int64, error)
	// Anchors are heads of an earlier verification, which must still be there.
	Anchors []Anchor
	// Progress is called now and then with the number of entries so far.
	Progress func(entries int64)
}

// Verified is the outcome of a Verify that found nothing wrong.
type Verified struct {
	Entries int64
	Anchors []Anchor // the newest entry of every chain that has one
}

// verifier is one Verify.
type verifier struct {
	*Log
	Verification
	Verified
	seen   map[int64]bool     // users that have a chain
	begun  map[int64]bool     // users whose chain nobody's log knows of
	anchor map[chain][]Anchor // what is still to be found
}

// Verify reads every entry of the log and returns the first thing that is wrong
// as a *Problem. Entries may be recorded meanwhile, by this process or others:
// they are left for the next time.
//
// It finds an entry that was changed, removed, inserted or moved, a chain that
// is shorter than its head says, a head that was changed or removed, and a
// user's chain that is gone. The stamp's anchors are compared as well. Whoever can restore an older state of the database
// as a whole, heads included, is found out by anchors alone.
func (l *Log) Verify(ctx context.Context, o Verification) (*Verified, error) {
	if l.closed != nil {
		return nil, fmt.Errorf("verify the audit log: %w", l.closed)
	}
	v := &verifier{Log: l, Verification: o, seen: map[int64]bool{}, begun: map[int64]bool{}, anchor: map[chain][]Anchor{}}
	if l.stamp != nil {
		o.Anchors = append(slices.Clone(o.Anchors), l.stamp.Chains...)
	}
	for _, a := range o.Anchors {
		v.anchor[a.chain()] = append(v.anchor[a.chain()], a)
	}
	// Users before nobody: a chain that begins meanwhile is then known to
	// nobody's log when that is read.
	if err := v.users(ctx); err != nil {
		return nil, err
	}
	if err := v.nobody(ctx); err != nil {
		return nil, err
	}
	if err := v.complete(ctx); err != nil {
		return nil, err
	}
	return &v.Verified, nil
}

// users verifies the chain of every user that has an entry or a head. Chains
// that begin meanwhile are left for the next time.
func (v *verifier) users(ctx context.Context) error {
	newest, err := newestChain(ctx, v.db.Reader())
	if err != nil {
		return err
	}
	for at := (chain{user: 0, lane: math.MaxInt64}); ; {
		c, found, err := nextChain(ctx, v.db.Reader(), at)
		if err != nil || !found || c.user > newest {
			return err
		}
		if c.lane != 0 {
			return c.problem(0, "has a chain %d, which no user has", c.lane)
		}
		if err := v.verify(ctx, c); err != nil {
			return err
		}
		v.seen[c.user] = true
		at = c
	}
}

func (v *verifier) nobody(ctx context.Context) error {
	for lane := range int64(lanes) {
		if err := v.verify(ctx, chain{lane: lane}); err != nil {
			return err
		}
	}
	c, found, err := nextChain(ctx, v.db.Reader(), chain{lane: lanes - 1})
	if err == nil && found && c.nobody() {
		return c.problem(0, "there is no such chain")
	}
	return err
}

// verify reads one chain up to the head that it has now.
func (v *verifier) verify(ctx context.Context, c chain) error {
	h, err := readHead(ctx, v.db.Reader(), c)
	switch {
	case err != nil:
		return err
	case h.seq < 0:
		return c.problem(0, "its head is missing")
	case !h.holds(v.key):
		return c.problem(0, "its head was changed")
	}
	last := row{chain: c}
	if err := v.entries(ctx, &last, h.seq); err != nil {
		return err
	}
	if !hmac.Equal(last.mac, h.mac) {
		return c.problem(last.seq, "is not the entry that was there")
	}
	if last.seq > 0 {
		v.Verified.Anchors = append(v.Verified.Anchors, Anchor{UserID: c.user, Lane: c.lane, Seq: last.seq, MAC: hexadecimal(last.mac)})
	}
	return v.behind(ctx, last)
}

// entries verifies the rows after last up to the number upTo.
func (v *verifier) entries(ctx context.Context, last *row, upTo int64) error {
	for last.seq < upTo {
		rows, err := readRows(ctx, v.db.Reader(), last.chain, last.seq, upTo, verifyBatch)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return last.problem(last.seq+1, "is missing, and all after it up to %d", upTo)
		}
		for i := range rows {
			if err := v.entry(last, &rows[i]); err != nil {
				return err
			}
		}
		if v.Progress != nil {
			v.Progress(v.Entries)
		}
	}
	return nil
}

// entry verifies the row after last and becomes the last.
func (v *verifier) entry(last, r *row) error {
	if r.seq != last.seq+1 {
		return last.problem(last.seq+1, "is missing")
	}
	if !hmac.Equal(r.mac, r.sum(v.key, last.mac)) {
		return r.problem(r.seq, "was changed, or put where it does not belong (%s, %s)", r.action, r.object)
	}
	if err := v.anchored(r); err != nil {
		return err
	}
	if r.nobody() && r.action == actionBegin {
		user, ok := userOf(r.object)
		if !ok || v.begun[user] {
			return r.problem(r.seq, "the log of %s was begun a second time: an earlier one was removed", r.object)
		}
		v.begun[user] = true
	}
	v.Entries++
	*last = *r
	return nil
}

// anchored compares the row with the anchors at its place.
func (v *verifier) anchored(r *row) error {
	anchors, ok := v.anchor[r.chain]
	if !ok {
		return nil
	}
	for _, a := range anchors {
		if a.Seq == r.seq && a.MAC != hexadecimal(r.mac) {
			return r.problem(r.seq, "is another one than when the anchor was kept")
		}
	}
	v.anchor[r.chain] = slices.DeleteFunc(anchors, func(a Anchor) bool { return a.Seq == r.seq })
	return nil
}

// behind makes sure that rows behind the last, which were recorded meanwhile,
// are known to the head by now.
func (v *verifier) behind(ctx context.Context, last row) error {
	newest, err := newestRow(ctx, v.db.Reader(), last.chain)
	if err != nil || newest <= last.seq {
		return err
	}
	h, err := readHead(ctx, v.db.Reader(), last.chain) // written together with the row
	if err == nil && h.seq < newest {
		err = last.problem(newest, "stands behind the head, which is at %d: it was added, or the head set back", h.seq)
	}
	return err
}

// complete looks for chains that are gone as a whole.
func (v *verifier) complete(ctx context.Context) error {
	for user := range v.seen {
		if !v.begun[user] {
			return chain{user: user}.problem(0, "nobody's log does not know when it began")
		}
	}
	for user := range v.begun {
		if v.seen[user] {
			continue
		}
		h, err := readHead(ctx, v.db.Reader(), chain{user: user})
		if err != nil {
			return err
		}
		if h.seq < 0 {
			return chain{user: user}.problem(0, "was removed as a whole")
		}
	}
	for a := range left(v.anchor) {
		return a.chain().problem(a.Seq, "was there when the anchor was kept and is gone, with all after it")
	}
	return v.everyUser(ctx)
}

// left gives the anchors that were not found, the oldest of a chain first.
func left(anchors map[chain][]Anchor) iter.Seq[Anchor] {
	return func(yield func(Anchor) bool) {
		for _, c := range slices.SortedFunc(maps.Keys(anchors), chain.before) {
			for _, a := range slices.SortedFunc(slices.Values(anchors[c]), func(a, b Anchor) int { return cmp.Compare(a.Seq, b.Seq) }) {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// everyUser makes sure that whoever exists has a log.
func (v *verifier) everyUser(ctx context.Context) error {
	for after := int64(0); v.Users != nil; {
		ids, err := v.Users(ctx, after, verifyBatch)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			after = id
			if v.begun[id] {
				continue
			}
			h, err := readHead(ctx, v.db.Reader(), chain{user: id})
			if err != nil {
				return err
			}
			if h.seq < 0 {
				return chain{user: id}.problem(0, "is missing, and the user exists")
			}
		}
	}
	return nil
}
