package audit

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	insertRowSQL = `INSERT INTO audit_log (user_id, lane, seq, at, actor, action, object, detail, request_id, ip, user_agent, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	headSQL       = `SELECT seq, mac, seal FROM audit_heads WHERE user_id = $1 AND lane = $2`
	insertHeadSQL = `INSERT INTO audit_heads (user_id, lane, seq, mac, seal) VALUES ($1, $2, 0, $3, $4) ON CONFLICT (user_id, lane) DO NOTHING`
	updateHeadSQL = `UPDATE audit_heads SET seq = $3, mac = $4, seal = $5 WHERE user_id = $1 AND lane = $2`
	newestRowSQL  = `SELECT seq FROM audit_log WHERE user_id = $1 AND lane = $2 ORDER BY seq DESC LIMIT 1`
	nextHeadSQL   = `SELECT user_id, lane FROM audit_heads WHERE (user_id, lane) > ($1, $2) ORDER BY user_id, lane LIMIT 1`
	nextChainSQL  = `SELECT user_id, lane FROM audit_log WHERE (user_id, lane) > ($1, $2) ORDER BY user_id, lane LIMIT 1`
	lastRowSQL    = `SELECT user_id FROM audit_log WHERE user_id > $1 ORDER BY user_id DESC, lane DESC, seq DESC LIMIT 1`
	lastHeadSQL   = `SELECT user_id FROM audit_heads WHERE user_id > $1 ORDER BY user_id DESC, lane DESC LIMIT 1`
	rowsSQL       = `SELECT seq, at, actor, action, object, detail, request_id, ip, user_agent, mac FROM audit_log
WHERE user_id = $1 AND lane = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5`
)

func insertRow(ctx context.Context, tx *sqldb.Tx, r *row) error {
	_, err := tx.ExecContext(ctx, insertRowSQL, r.user, r.lane, r.seq, r.at, r.actor, r.action, r.object, r.detail, r.requestID, r.ip, r.userAgent, r.mac)
	return err
}

// lockHead reads the head of the chain, which is made when there is none, and
// keeps others from it until tx ends.
func lockHead(ctx context.Context, tx *sqldb.Tx, c chain) (h head, begun bool, err error) {
	query := headSQL
	if tx.Dialect() == sqldb.Postgres {
		query += " FOR UPDATE"
	}
	h.chain = c
	read := func() error { return tx.QueryRowContext(ctx, query, c.user, c.lane).Scan(&h.seq, &h.mac, &h.seal) }
	if err = read(); sqldb.Is(err, sqldb.ErrNotFound) {
		if _, err = tx.ExecContext(ctx, insertHeadSQL, c.user, c.lane, []byte{}, []byte{}); err == nil {
			err = read() // another may have been faster, and gone on
			begun = h.seq == 0
		}
	}
	if err != nil {
		return h, false, fmt.Errorf("lock the audit log of user %d: %w", c.user, err)
	}
	return h, begun, nil
}

func updateHead(ctx context.Context, tx *sqldb.Tx, h *head) error {
	if _, err := tx.ExecContext(ctx, updateHeadSQL, h.user, h.lane, h.seq, h.mac, h.seal); err != nil {
		return fmt.Errorf("advance the audit log of user %d: %w", h.user, err)
	}
	return nil
}

// newestRow is the number of the chain's newest row, 0 when there is none.
func newestRow(ctx context.Context, q sqldb.Querier, c chain) (seq int64, err error) {
	err = q.QueryRowContext(ctx, newestRowSQL, c.user, c.lane).Scan(&seq)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, fmt.Errorf("look for the newest entry of user %d: %w", c.user, err)
	}
	return seq, nil
}

// readHead is the head of the chain; seq is -1 when there is none.
func readHead(ctx context.Context, q sqldb.Querier, c chain) (head, error) {
	h := head{chain: c}
	err := q.QueryRowContext(ctx, headSQL, c.user, c.lane).Scan(&h.seq, &h.mac, &h.seal)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		h.seq = -1
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read the head of user %d: %w", c.user, err)
	}
	return h, nil
}

// readRows are at most limit rows of the chain after a number up to another, in
// their order.
func readRows(ctx context.Context, q sqldb.Querier, c chain, after, upTo, limit int64) (list []row, err error) {
	rows, err := q.QueryContext(ctx, rowsSQL, c.user, c.lane, after, upTo, limit)
	if err != nil {
		return nil, fmt.Errorf("read the entries of user %d: %w", c.user, err)
	}
	defer rows.Close()
	for rows.Next() {
		r := row{chain: c}
		if err := rows.Scan(&r.seq, &r.at, &r.actor, &r.action, &r.object, &r.detail, &r.requestID, &r.ip, &r.userAgent, &r.mac); err != nil {
			return nil, fmt.Errorf("read the entries of user %d: %w", c.user, err)
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// nextChain is the chain after c that has an entry or a head.
func nextChain(ctx context.Context, q sqldb.Querier, c chain) (next chain, found bool, err error) {
	for _, query := range []string{nextChainSQL, nextHeadSQL} {
		var n chain
		err := q.QueryRowContext(ctx, query, c.user, c.lane).Scan(&n.user, &n.lane)
		if sqldb.Is(err, sqldb.ErrNotFound) {
			continue
		}
		if err != nil {
			return next, false, fmt.Errorf("look for the chain after user %d: %w", c.user, err)
		}
		if !found || n.user < next.user || n.user == next.user && n.lane < next.lane {
			next, found = n, true
		}
	}
	return next, found, nil
}

// newestChain is the greatest id of a user who has an entry or a head.
func newestChain(ctx context.Context, q sqldb.Querier) (user int64, err error) {
	for _, query := range []string{lastRowSQL, lastHeadSQL} {
		var id int64
		err := q.QueryRowContext(ctx, query, 0).Scan(&id)
		if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
			return 0, fmt.Errorf("look for the newest chain: %w", err)
		}
		user = max(user, id)
	}
	return user, nil
}
