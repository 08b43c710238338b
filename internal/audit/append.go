package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"certharbor.dev/certharbor/internal/sqldb"
)

// appendAll chains and inserts what a transaction has recorded. It runs at the
// transaction's end and locks the chains in one order, nobody's last; nothing is
// locked after them.
func (l *Log) appendAll(ctx context.Context, tx *sqldb.Tx, items []any) error {
	byChain := map[chain][]row{}
	nobody := chain{lane: rand.Int64N(lanes)} //nolint:gosec // any will do
	for _, item := range items {
		r := item.(row)
		if r.nobody() {
			r.chain = nobody
		}
		byChain[r.chain] = append(byChain[r.chain], r)
	}
	order := make([]chain, 0, len(byChain)+1)
	for c := range byChain {
		order = append(order, c)
	}
	slices.SortFunc(order, chain.before)
	for i := 0; i < len(order); i++ {
		c := order[i]
		begun, err := l.appendTo(ctx, tx, c, byChain[c])
		if err != nil {
			return err
		}
		if begun && !c.nobody() {
			if !slices.Contains(order, nobody) {
				order = append(order, nobody)
			}
			byChain[nobody] = append(byChain[nobody], l.begin(nobody, c.user))
		}
	}
	return nil
}

// begin is the entry of nobody's log that says that a user's chain exists, so
// that a chain that is removed as a whole is missed.
func (l *Log) begin(in chain, user int64) row {
	return row{chain: in, at: l.now().UnixMilli(), actor: actorSystem, action: actionBegin, object: userObject(user), detail: "{}"}
}

const actionBegin = "audit.begin"

func userObject(id int64) string { return fmt.Sprintf("user %d", id) }

// appendTo locks the chain's head and puts the rows behind it. begun says that
// the chain is new.
func (l *Log) appendTo(ctx context.Context, tx *sqldb.Tx, c chain, rows []row) (begun bool, err error) {
	h, begun, err := lockHead(ctx, tx, c)
	if err != nil {
		return false, err
	}
	// The seal of a head that somebody changed must not be made good by going
	// on from it: the chain goes on, and is found broken for ever.
	broken := !begun && !h.holds(l.key)
	if begun || broken {
		if broken, err = l.resume(ctx, tx, &h, broken); err != nil {
			return false, err
		}
	}
	for i := range rows {
		r := &rows[i]
		r.seq = h.seq + 1
		r.mac = r.sum(l.key, h.mac)
		if err := insertRow(ctx, tx, r); err != nil {
			if sqldb.Is(err, sqldb.ErrConflict) { // the caller must not take it for one of its own
				err = fmt.Errorf("%v: the head was set back, see certharbor audit verify", err) //nolint:errorlint // see above
			}
			return false, fmt.Errorf("append entry %d to the audit log of user %d: %w", r.seq, c.user, err)
		}
		h.seq, h.mac = r.seq, r.mac
	}
	if h.seal = h.sum(l.key); broken {
		h.seal = []byte("broken")
	}
	return begun, updateHead(ctx, tx, &h)
}

// resume finds the place to go on from when the head cannot be believed: behind
// the rows there are. A new chain has none.
func (l *Log) resume(ctx context.Context, tx *sqldb.Tx, h *head, broken bool) (bool, error) {
	newest, err := newestRow(ctx, tx, h.chain)
	if err != nil {
		return false, err
	}
	if newest > 0 || broken {
		l.log.ErrorContext(ctx, "the audit log was tampered with: the head of a chain is not the one that was written; see certharbor audit verify", "user_id", h.user, "lane", h.lane)
		h.seq = max(h.seq, newest)
		return true, nil
	}
	return false, nil
}
