package devices

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Count tells how many devices the user has.
func (s *Service) Count(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).countAll(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("count devices: %w", err)
	}
	return n, nil
}

// oneMore asks whether the user may have one more device. A known one that
// registers again is none.
func (s *Service) oneMore(ctx context.Context, tx *sqldb.Tx, c checked) error {
	if s.Quota == nil {
		return nil
	}
	_, err := New(tx).lockDeviceByPublicID(ctx, lockDeviceByPublicIDParams{UserID: c.UserID, PublicID: c.publicID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return s.Quota(ctx, tx, c.UserID)
	}
	if err != nil {
		return fmt.Errorf("look for the device: %w", err)
	}
	return nil
}
