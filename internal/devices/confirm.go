package devices

import (
	"cmp"
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

type confirmKeyInput struct {
	DeviceID int64 `path:"device_id"`
	Body     struct {
		DeviceKeyFP string `json:"device_keyfp_b64" maxLength:"100" doc:"The fingerprint of the waiting key, as the device record shows it."`
	}
}

func (s *Service) confirmKey(ctx context.Context, in *confirmKeyInput) (DeviceRecord, error) {
	return s.ConfirmKey(ctx, access.From(ctx).UserID, in.DeviceID, in.Body.DeviceKeyFP)
}

func (s *Service) refuseKey(ctx context.Context, in *deviceInput) (*web.Reply[web.None], error) {
	if err := s.RefuseKey(ctx, access.From(ctx).UserID, in.DeviceID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

// ConfirmKey makes the waiting key with this fingerprint the device's own: what
// is assigned is sealed to it, its token family goes on, and that of the old key
// ends. Confirming it twice changes nothing. Errors: 5003 without such a device
// or waiting key, 5030 when another key waits by now, 5034 without a fresh proof.
func (s *Service) ConfirmKey(ctx context.Context, userID, deviceID int64, fingerprint string) (DeviceRecord, error) {
	if err := s.fresh(ctx); err != nil {
		return DeviceRecord{}, err
	}
	var e enrolled
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		if e, err = s.lockWaiting(ctx, tx, userID, deviceID); err != nil {
			return err
		}
		switch {
		case fingerprint == keyFingerprint(e.device.PublicKey):
			return nil
		case e.waiting == nil:
			return fault.NotFound("waiting key")
		case fingerprint != keyFingerprint(e.waiting.PublicKey):
			return fault.Conflict("device_keyfp_b64: is not the key that waits now; look at the device again")
		}
		return s.confirm(ctx, tx, &e)
	})
	s.devices.forget(deviceID)
	if err != nil {
		return DeviceRecord{}, fmt.Errorf("confirm a device key: %w", err)
	}
	d, err := fromRow(e.device)
	if e.waiting != nil {
		d.Waiting = waitingFromRow(*e.waiting)
	}
	return d.record(), err
}

func (s *Service) confirm(ctx context.Context, tx *sqldb.Tx, e *enrolled) error {
	d, k := e.device, e.waiting
	row, err := New(tx).updateDevice(ctx, updateDeviceParams{
		ID: d.ID, PublicKey: k.PublicKey, SessionNo: k.SessionNo, Families: d.Families, Name: cmp.Or(k.Name, d.Name),
		Platform: cmp.Or(k.Platform, d.Platform), Model: cmp.Or(k.Model, d.Model), AppVersion: cmp.Or(k.AppVersion, d.AppVersion),
		Ip: cmp.Or(k.Ip, d.Ip), UserAgent: cmp.Or(k.UserAgent, d.UserAgent), Now: s.Now().UnixMilli(),
	})
	if err != nil {
		return fmt.Errorf("write device: %w", err)
	}
	e.device = row
	if err := s.rekeyed(ctx, tx, Registration{}, e); err != nil {
		return err
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: d.UserID, Action: "device.confirm_key", Object: object(d.ID), Detail: map[string]any{"device_keyfp_b64": keyFingerprint(k.PublicKey)},
	})
}

// RefuseKey drops the key that waits for the device, and ends its token family.
// 5003 without such a device or waiting key.
func (s *Service) RefuseKey(ctx context.Context, userID, deviceID int64) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		e, err := s.lockWaiting(ctx, tx, userID, deviceID)
		if err != nil {
			return err
		}
		if e.waiting == nil {
			return fault.NotFound("waiting key")
		}
		if _, err := New(tx).dropWaitingKey(ctx, deviceID); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "device.refuse_key", Object: object(deviceID),
			Detail: map[string]any{"device_keyfp_b64": keyFingerprint(e.waiting.PublicKey)},
		})
	})
	s.devices.forget(deviceID)
	if err != nil {
		return fmt.Errorf("refuse a device key: %w", err)
	}
	return nil
}

// lockWaiting locks a device of the user and reads the key that waits for it.
func (s *Service) lockWaiting(ctx context.Context, tx *sqldb.Tx, userID, deviceID int64) (e enrolled, err error) {
	e.device, err = New(tx).lockDevice(ctx, deviceID)
	if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && e.device.UserID != userID {
		return e, fault.NotFound("device")
	}
	if err != nil {
		return e, fmt.Errorf("lock device: %w", err)
	}
	e.waiting, err = s.waitingKey(ctx, tx, deviceID)
	return e, err
}
