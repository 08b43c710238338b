package devices

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// settle notes the first use of the pair that an access token belongs to, once:
// a pair that was used stays good until its token expires. The token of a pair
// whose sibling was used first is 5018. Tokens from before pairs were counted
// name none.
func (s *Service) settle(ctx context.Context, v *verified) error {
	if v.pair == 0 || v.settled.Load() {
		return nil
	}
	row, err := New(s.DB.Reader()).readPair(ctx, readPairParams{ID: v.pair, DeviceID: v.caller.DeviceID})
	if err == nil && !row.UsedAt.Valid && !row.LostAt.Valid {
		row, err = s.usePair(ctx, v)
	}
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound), err == nil && row.LostAt.Valid:
		return errToken
	case err != nil && ctx.Err() == nil && fault.As(err) == nil:
		// A device is served although the disk may be full. Its pair is not settled.
		s.Log.WarnContext(ctx, "cannot record the use of a device's tokens", "device_id", v.caller.DeviceID, "error", err)
		return nil
	case err != nil:
		return err
	}
	v.settled.Store(true)
	return nil
}

// usePair is the write of settle, asked again under the lock of the device.
func (s *Service) usePair(ctx context.Context, v *verified) (row refreshTokenRow, err error) {
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		q := New(tx)
		if _, err := q.lockDevice(ctx, v.caller.DeviceID); err != nil {
			return err
		}
		if row, err = q.readPair(ctx, readPairParams{ID: v.pair, DeviceID: v.caller.DeviceID}); err != nil || row.LostAt.Valid {
			return err
		}
		return s.use(ctx, tx, &row)
	})
	if err != nil {
		return row, fmt.Errorf("use a pair: %w", err)
	}
	return row, nil
}
