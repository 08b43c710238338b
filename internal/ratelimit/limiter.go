package ratelimit

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Limiter counts hits in the database.
type Limiter struct {
	db  *sqldb.DB
	now func() time.Time
}

// NewLimiter returns a Limiter on db that takes the time from now.
func NewLimiter(db *sqldb.DB, now func() time.Time) *Limiter {
	return &Limiter{db: db, now: now}
}

const (
	takeSQL = `INSERT INTO rate_limits (bucket, hits, ends_at) VALUES ($1, 1, $2)
ON CONFLICT (bucket) DO UPDATE SET
	hits = CASE WHEN rate_limits.ends_at <= $3 THEN 1 ELSE rate_limits.hits + 1 END,
	ends_at = CASE WHEN rate_limits.ends_at <= $3 THEN excluded.ends_at ELSE rate_limits.ends_at END
RETURNING hits, ends_at`
	checkSQL = `SELECT hits, ends_at FROM rate_limits WHERE bucket = $1 AND ends_at > $2`
	resetSQL = `DELETE FROM rate_limits WHERE bucket = $1`
	sweepSQL = `DELETE FROM rate_limits WHERE ends_at <= $1`
	straySQL = `DELETE FROM rate_limits WHERE ends_at > $1`
)

// Take counts one hit of the bucket in a transaction of its own. The hit that
// would exceed limit within the window is refused with fault.RateLimited, whose
// RetryAfter is the rest of the window. A bucket that is full already costs no
// write.
func (l *Limiter) Take(ctx context.Context, bucket string, limit int, window time.Duration) error {
	if err := l.Check(ctx, bucket, limit); err != nil {
		return err
	}
	return l.db.InTx(ctx, func(tx *sqldb.Tx) error {
		return l.TakeIn(ctx, tx, bucket, limit, window)
	})
}

// TakeIn is Take within the caller's transaction, which a refusal should roll
// back.
func (l *Limiter) TakeIn(ctx context.Context, tx sqldb.Querier, bucket string, limit int, window time.Duration) error {
	var hits, ends int64
	now := l.now()
	row := tx.QueryRowContext(ctx, takeSQL, bucket, now.Add(window).UnixMilli(), now.UnixMilli())
	if err := row.Scan(&hits, &ends); err != nil {
		return fmt.Errorf("count a hit: %w", err)
	}
	if hits > int64(limit) {
		return refuse(now, ends)
	}
	return nil
}

// Check reports, without counting, whether the bucket is full: the next Take
// would be refused. The error is the one that Take would give.
func (l *Limiter) Check(ctx context.Context, bucket string, limit int) error {
	return l.CheckIn(ctx, l.db.Reader(), bucket, limit)
}

// CheckIn is Check on the caller's transaction.
func (l *Limiter) CheckIn(ctx context.Context, q sqldb.Querier, bucket string, limit int) error {
	var hits, ends int64
	now := l.now()
	err := q.QueryRowContext(ctx, checkSQL, bucket, now.UnixMilli()).Scan(&hits, &ends)
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("check a limit: %w", err)
	case hits >= int64(limit):
		return refuse(now, ends)
	}
	return nil
}

// Reset forgets the hits of the bucket.
func (l *Limiter) Reset(ctx context.Context, bucket string) error {
	return l.db.InTx(ctx, func(tx *sqldb.Tx) error { return l.ResetIn(ctx, tx, bucket) })
}

// ResetIn is Reset within the caller's transaction.
func (l *Limiter) ResetIn(ctx context.Context, tx sqldb.Querier, bucket string) error {
	if _, err := tx.ExecContext(ctx, resetSQL, bucket); err != nil {
		return fmt.Errorf("reset a limit: %w", err)
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
