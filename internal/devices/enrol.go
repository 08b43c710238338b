package devices

import (
	"bytes"
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
// Another key of a known device waits for its owner unless the registration may
// re-key it: its family is alive beside the device's own, and gets no private
// key. An error leaves nothing behind.
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
	var e enrolled
	var refusal error
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		var g grant
		if g, refusal, err = s.admit(ctx, tx, c); err != nil || refusal != nil {
			return err
		}
		if e, err = s.write(ctx, tx, c, g); err != nil {
			return err
		}
		answer.Session, err = s.issue(ctx, tx, keys, e.device, e.sessionNo, sql.NullInt64{})
		return err
	})
	s.devices.forget(e.device.ID)
	if err != nil {
		return RegisteredDevice{}, false, fmt.Errorf("register device: %w", err)
	}
	if refusal != nil {
		return RegisteredDevice{}, false, s.refuse(ctx, refusal)
	}
	device, err := fromRow(e.device)
	if e.waiting != nil {
		device.Waiting = waitingFromRow(*e.waiting)
	}
	answer.Device = device.record()
	return answer, e.created, err
}

// enrolled is what a registration came to.
type enrolled struct {
	device    deviceRow
	waiting   *waitingKeyRow // another key of the device, this one or one before it
	sessionNo int64          // the family that begins or goes on
	created   bool
}

// write stores the device, or the key that waits, and begins a token family; a
// replay goes on with its own.
func (s *Service) write(ctx context.Context, tx *sqldb.Tx, c checked, g grant) (e enrolled, err error) {
	q := New(tx)
	if err := s.oneMore(ctx, tx, c); err != nil {
		return e, err
	}
	for range 3 { // again when a known device is deleted just now
		if e.device, err = q.insertDevice(ctx, c.insert(s.Now())); !sqldb.Is(err, sqldb.ErrNotFound) {
			e.created, e.sessionNo = err == nil, e.device.SessionNo
			break
		}
		e.device, err = q.lockDeviceByPublicID(ctx, lockDeviceByPublicIDParams{UserID: c.UserID, PublicID: c.publicID})
		if err == nil {
			break
		}
	}
	if err != nil {
		return e, fmt.Errorf("write device: %w", err)
	}
	if g.chosen != 0 && g.chosen != e.device.ID { // the approval was for another device
		return e, errWrongCode
	}
	if g.codeID != 0 {
		if err := q.bindCode(ctx, bindCodeParams{UsedDeviceID: valid(e.device.ID), ID: g.codeID}); err != nil {
			return e, fmt.Errorf("bind registration code: %w", err)
		}
	}
	if e.created {
		return e, s.enter(ctx, tx, c, e.device)
	}
	return e, s.again(ctx, tx, c, g, &e)
}

// enter completes the record of a new device.
func (s *Service) enter(ctx context.Context, tx *sqldb.Tx, c checked, d deviceRow) error {
	if err := s.keepPushToken(ctx, New(tx), c, d); err != nil {
		return err
	}
	if err := s.tellOf(ctx, tx, NoticeNew, d, c.Registration); err != nil {
		return err
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: d.UserID, Action: "device.register", Object: object(d.ID),
		Detail: map[string]any{"door": c.door.String(), "device_public_id": d.PublicID},
	})
}

// again registers a known device, which is locked.
func (s *Service) again(ctx context.Context, tx *sqldb.Tx, c checked, g grant, e *enrolled) error {
	waiting, err := s.waitingKey(ctx, tx, e.device.ID)
	if err != nil {
		return err
	}
	e.waiting = waiting
	same := bytes.Equal(e.device.PublicKey, c.publicKey[:])
	if g.replayed {
		if e.sessionNo = e.device.SessionNo; !same && waiting != nil {
			e.sessionNo = waiting.SessionNo
		}
		return nil
	}
	if e.device.Families++; !same && !c.MayRekey && g.chosen == 0 {
		return s.wait(ctx, tx, c, e)
	}
	e.sessionNo = e.device.Families
	old := e.device
	if e.device, err = New(tx).updateDevice(ctx, c.update(old, s.Now())); err != nil {
		return fmt.Errorf("write device: %w", err)
	}
	if !same {
		if err := s.rekeyed(ctx, tx, c.Registration, e); err != nil {
			return err
		}
	}
	if err := s.keepPushToken(ctx, New(tx), c, e.device); err != nil {
		return err
	}
	if err := s.pruneFamilies(ctx, tx, *e); err != nil {
		return err
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: old.UserID, Action: "device.reregister", Object: object(old.ID),
		Detail: map[string]any{"door": c.door.String(), "device_public_id": old.PublicID, "key_changed": !same},
	})
}

// keepPushToken stores it sealed.
func (s *Service) keepPushToken(ctx context.Context, q *Queries, c checked, d deviceRow) error {
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
