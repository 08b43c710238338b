package devices

import (
	"context"
	"database/sql"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// RegisteredDevice is the answer of every door (wire.md section 4).
type RegisteredDevice struct {
	Device  DeviceRecord `json:"device"`
	Session DeviceTokens `json:"session"`
}

// Enrol makes a device of the user, or gives a known one (same user and
// device_public_id) a new token family under its old id; created tells which.
// An error leaves nothing behind.
func (s *Service) Enrol(ctx context.Context, r Registration) (answer RegisteredDevice, created bool, err error) {
	c, err := r.check()
	if err != nil {
		return RegisteredDevice{}, false, err
	}
	if err := s.precheck(ctx, &c); err != nil {
		return RegisteredDevice{}, false, err
	}
	keys, err := s.signer.current(ctx)
	if err != nil {
		return RegisteredDevice{}, false, err
	}
	var d deviceRow
	var refusal error
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		var g grant
		if g, refusal, err = s.admit(ctx, tx, c); err != nil || refusal != nil {
			return err
		}
		if d, created, err = s.write(ctx, tx, c, g); err != nil {
			return err
		}
		answer.Session, err = s.issue(ctx, tx, keys, d, d.SessionNo, sql.NullInt64{})
		return err
	})
	s.devices.forget(d.ID)
	if err != nil {
		return RegisteredDevice{}, false, fmt.Errorf("register device: %w", err)
	}
	if refusal != nil {
		return RegisteredDevice{}, false, s.refuse(ctx, refusal)
	}
	device, err := fromRow(d)
	answer.Device = device.record()
	return answer, created, err
}

// write stores the device and, but for a replay, begins a token family.
func (s *Service) write(ctx context.Context, tx *sqldb.Tx, c checked, g grant) (d deviceRow, created bool, err error) {
	q := New(tx)
	if g.replayed {
		d, err = q.lockDevice(ctx, g.deviceID)
		return d, false, err
	}
	keyChanged := false
	for range 3 { // again when a known device is deleted just now
		if d, err = q.insertDevice(ctx, c.insert(s.Now())); !sqldb.Is(err, sqldb.ErrNotFound) {
			created = err == nil
			break
		}
		d, err = q.lockDeviceByPublicID(ctx, lockDeviceByPublicIDParams{UserID: c.UserID, PublicID: c.publicID})
		if err == nil {
			keyChanged = string(d.PublicKey) != string(c.publicKey[:])
			d, err = q.updateDevice(ctx, c.update(d, s.Now()))
			if err == nil {
				err = q.pruneFamilies(ctx, pruneFamiliesParams{DeviceID: d.ID, Oldest: d.SessionNo - keptFamilies})
			}
			break
		}
	}
	if err != nil {
		return d, false, fmt.Errorf("write device: %w", err)
	}
	if err := s.remember(ctx, q, c, g, d); err != nil {
		return d, false, err
	}
	if keyChanged && s.Keys != nil {
		device, err := fromRow(d)
		if err == nil {
			err = s.Keys.DeviceKeyChanged(ctx, tx, device)
		}
		if err != nil {
			return d, false, fmt.Errorf("tell of the new device key: %w", err)
		}
	}
	action := "device.register"
	if !created {
		action = "device.reregister"
	}
	return d, created, s.Audit.Record(ctx, tx, audit.Entry{
		UserID: d.UserID, Action: action, Object: object(d.ID),
		Detail: map[string]any{"door": c.door.String(), "device_public_id": d.PublicID, "key_changed": keyChanged},
	})
}

// remember stores what stands beside the device row.
func (s *Service) remember(ctx context.Context, q *Queries, c checked, g grant, d deviceRow) error {
	if g.codeID != 0 {
		err := q.bindCode(ctx, bindCodeParams{UsedDeviceID: valid(d.ID), ID: g.codeID})
		if err != nil {
			return fmt.Errorf("bind registration code: %w", err)
		}
	}
	if c.PushToken == "" {
		return nil
	}
	sealed, err := s.Keyring.Seal(seal.Place{Table: "devices", Row: d.ID, Column: "push_token"}, []byte(c.PushToken))
	if err == nil {
		err = q.setPushToken(ctx, setPushTokenParams{PushToken: sealed, ID: d.ID})
	}
	if err != nil {
		return fmt.Errorf("store push token: %w", err)
	}
	return nil
}
