package devices

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// deviceState is what authentication needs of a device. The zero value is a
// device that does not exist.
type deviceState struct {
	userID    int64
	active    bool
	sessionNo int64
	waitingNo int64         // family of a key that waits, 0: none does
	lastSeen  *atomic.Int64 // Unix ms
}

// seenEvery is how often the time a device was last seen is written.
const seenEvery = 10 * time.Minute

var errDeviceRefused = fault.Forbidden("The device does not exist, is not active, or its user is not.")

// AuthenticateDevice takes a device access token and returns its caller, which
// is shared and must not be changed. The checks are those of wire.md section 2
// in their order: signature, expiry and type (5018), device_id (5000), the
// device exists, is the token user's, and it and the user are ACTIVE (5022);
// then that its token family is still alive, and no sibling of its pair was used
// first (5018).
func (s *Service) AuthenticateDevice(ctx context.Context, token string) (*access.Caller, error) {
	now := s.Now()
	v, err := s.verify(ctx, token, now)
	if err != nil {
		return nil, err
	}
	if v.caller.DeviceID == 0 {
		return nil, errNoDevice
	}
	state, err := s.devices.get(ctx, v.caller.DeviceID, now, s.loadDevice)
	if err != nil {
		return nil, err
	}
	if !state.active || state.userID != v.caller.UserID {
		return nil, errDeviceRefused
	}
	status, err := s.users.get(ctx, state.userID, now, s.loadUser)
	if err != nil {
		return nil, err
	}
	if *status != StatusActive {
		return nil, errDeviceRefused
	}
	caller := &v.caller
	switch {
	case v.sessionNo == state.sessionNo:
	case v.sessionNo == state.waitingNo && state.waitingNo != 0:
		caller = &v.waiting
	default:
		return nil, errToken
	}
	if err := s.settle(ctx, v); err != nil {
		return nil, err
	}
	s.seen(ctx, v.caller.DeviceID, state, now)
	return caller, nil
}

func (s *Service) loadDevice(ctx context.Context, id int64) (deviceState, error) {
	row, err := New(s.DB.Reader()).readDeviceState(ctx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return deviceState{}, nil
	}
	if err != nil {
		return deviceState{}, fmt.Errorf("read device state: %w", err)
	}
	state := deviceState{userID: row.UserID, active: row.Status == StatusActive, sessionNo: row.SessionNo, waitingNo: row.WaitingNo, lastSeen: new(atomic.Int64)}
	state.lastSeen.Store(row.LastSeenAt)
	return state, nil
}

func (s *Service) loadUser(ctx context.Context, id int64) (string, error) {
	status, err := New(s.DB.Reader()).readUserStatus(ctx, id)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return "", fmt.Errorf("read user status: %w", err)
	}
	return status, nil
}

// seen writes the time once in ten minutes. A device is served although that
// fails: the disk may be full.
func (s *Service) seen(ctx context.Context, id int64, state *deviceState, now time.Time) {
	last := state.lastSeen.Load()
	if now.UnixMilli()-last < seenEvery.Milliseconds() || !state.lastSeen.CompareAndSwap(last, now.UnixMilli()) {
		return
	}
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		return New(tx).touchDevice(ctx, touchDeviceParams{LastSeenAt: now.UnixMilli(), ID: id})
	})
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "cannot record when a device was last seen", "device_id", id, "error", err)
	}
}
