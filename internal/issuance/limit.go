package issuance

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// At most maxOrders orders are placed for one set of names in limitTime
// (decisions.md section 4). It is counted per user: nobody can use up another
// one's share.
const (
	maxOrders = 3
	limitTime = 24 * time.Hour
)

// limit returns a fault (5013) when another attempt for the names could place
// an order too many. Attempts that have not placed theirs yet count.
func (s *Service) limit(ctx context.Context, q sqldb.Querier, userID int64, set []byte) error {
	now := s.Now()
	placed, err := New(q).ordersSince(ctx, ordersSinceParams{
		UserID: userID, NameSet: set, Since: now.Add(-limitTime).UnixMilli(), Max: maxOrders,
	})
	if err != nil {
		return fmt.Errorf("count orders: %w", err)
	}
	waiting, err := New(q).countUnordered(ctx, countUnorderedParams{UserID: userID, NameSet: set})
	if err != nil {
		return fmt.Errorf("count orders to come: %w", err)
	}
	if len(placed)+int(waiting) < maxOrders {
		return nil
	}
	after := time.Minute // until an attempt under way has placed its order or failed
	if len(placed) > 0 {
		after = time.UnixMilli(placed[len(placed)-1]).Add(limitTime).Sub(now)
	}
	return fault.RateLimited(after, `%d orders for exactly these names were placed in the last 24 hours, the most that `+
		`public authorities should see; wait, or send {"force": true}.`, maxOrders)
}
