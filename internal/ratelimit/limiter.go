package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Limiter counts hits in the database.
type Limiter struct {
	db   *sqldb.DB
	now  func() time.Time
	open flights
}

// NewLimiter returns a Limiter on db that takes the time from now.
func NewLimiter(db *sqldb.DB, now func() time.Time) *Limiter {
	return &Limiter{db: db, now: now, open: flights{changed: make(chan struct{})}}
}

// Hit is one thing that is counted.
type Hit struct {
	Rule   Rule
	Key    string // for whom
	Max    int
	Window time.Duration
}

func (h Hit) bucket() string { return h.Rule.String() + " " + h.Key }

// sorted orders the hits as all transactions lock them, so that no two wait for
// each other.
func sorted(hits []Hit) []Hit {
	return slices.SortedFunc(slices.Values(hits), func(a, b Hit) int { return cmp.Compare(a.bucket(), b.bucket()) })
}

const (
	takeSQL = `INSERT INTO rate_limits (bucket, hits, ends_at) VALUES ($1, 1, $2)
ON CONFLICT (bucket) DO UPDATE SET
	hits = CASE WHEN rate_limits.ends_at <= $3 THEN 1 ELSE rate_limits.hits + 1 END,
	ends_at = CASE WHEN rate_limits.ends_at <= $3 THEN excluded.ends_at ELSE rate_limits.ends_at END
RETURNING hits, ends_at`
	peekSQL     = `SELECT hits, ends_at FROM rate_limits WHERE bucket = $1 AND ends_at > $2`
	giveBackSQL = `UPDATE rate_limits SET hits = hits - 1 WHERE bucket = $1 AND ends_at = $2 AND hits > 0`
	sweepSQL    = `DELETE FROM rate_limits WHERE ends_at <= $1`
	straySQL    = `DELETE FROM rate_limits WHERE ends_at > $1`
)

// CountIn counts the hits in the transaction that does what they stand for. A
// hit that would exceed its limit is refused with fault.RateLimited, whose
// RetryAfter is the rest of the window; the caller rolls back then.
func (l *Limiter) CountIn(ctx context.Context, tx *sqldb.Tx, hits ...Hit) error {
	_, err := l.count(ctx, tx, hits)
	return err
}

// counted is a hit that was counted in the window that ends then.
type counted struct {
	bucket string
	ends   int64
}

func (l *Limiter) count(ctx context.Context, tx *sqldb.Tx, hits []Hit) ([]counted, error) {
	now, done := l.now(), make([]counted, 0, len(hits))
	for _, h := range sorted(hits) {
		var n, ends int64
		row := tx.QueryRowContext(ctx, takeSQL, h.bucket(), now.Add(h.Window).UnixMilli(), now.UnixMilli())
		if err := row.Scan(&n, &ends); err != nil {
			return nil, fmt.Errorf("count a hit: %w", err)
		}
		if n > int64(h.Max) {
			return nil, refuse(now, ends)
		}
		done = append(done, counted{h.bucket(), ends})
	}
	return done, nil
}

// Used tells how many hits the present window has.
func (l *Limiter) Used(ctx context.Context, h Hit) (int64, error) {
	var n, ends int64
	err := l.db.Reader().QueryRowContext(ctx, peekSQL, h.bucket(), l.now().UnixMilli()).Scan(&n, &ends)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, fmt.Errorf("read a limit: %w", err)
	}
	return n, nil
}

// Peek reports, without counting, whether one of the hits would be refused, with
// the error of CountIn.
func (l *Limiter) Peek(ctx context.Context, hits ...Hit) error {
	now := l.now()
	for _, h := range hits {
		var n, ends int64
		err := l.db.Reader().QueryRowContext(ctx, peekSQL, h.bucket(), now.UnixMilli()).Scan(&n, &ends)
		switch {
		case sqldb.Is(err, sqldb.ErrNotFound):
		case err != nil:
			return fmt.Errorf("look at a limit: %w", err)
		case n >= int64(h.Max):
			return refuse(now, ends)
		}
	}
	return nil
}

// longest is more than any window is long. One that ends later was begun by a
// clock that was ahead.
const longest = 25 * time.Hour

// Sweep deletes the windows that have ended, and those that would not end.
func (l *Limiter) Sweep(ctx context.Context) error {
	return l.db.InTx(ctx, func(tx *sqldb.Tx) error {
		now := l.now()
		if _, err := tx.ExecContext(ctx, sweepSQL, now.UnixMilli()); err != nil {
			return fmt.Errorf("sweep the limits: %w", err)
		}
		if _, err := tx.ExecContext(ctx, straySQL, now.Add(longest).UnixMilli()); err != nil {
			return fmt.Errorf("sweep the limits: %w", err)
		}
		return nil
	})
}

func refuse(now time.Time, endsAt int64) error {
	after := max(time.UnixMilli(endsAt).Sub(now), time.Second)
	return fault.RateLimited(after, "Too many attempts; wait before you try again.")
}
