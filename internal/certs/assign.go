package certs

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/sqldb"
)

// assign gives the certificate to the device. It wraps the private key for the
// device at once where the server can; pending tells that it could not. Doing
// it twice changes nothing. find looks the device up, so that a device is found
// by its id or by its public id.
func (s *Service) assign(ctx context.Context, userID, certID int64, find func(q sqldb.Querier) (devices.Device, error)) (pending bool, err error) {
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		pending = false
		d, err := find(tx)
		if err != nil {
			return err
		}
		// The device is locked, or a key that changes meanwhile would miss this
		// wrap; then it is read again, as it is now.
		if err := lockDevice(ctx, tx, d.ID); err != nil {
			return err
		}
		if d, err = find(tx); err != nil {
			return err
		}
		c, err := s.lock(ctx, tx, userID, certID)
		if err != nil {
			return err
		}
		added, err := New(tx).assign(ctx, assignParams{DeviceID: d.ID, CertID: certID, CreatedAt: s.Now().UnixMilli()})
		if err != nil {
			return fmt.Errorf("assign certificate: %w", err)
		}
		all, err := assignees(ctx, tx, certID)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(a assignee) bool { return a.deviceID != d.ID })
		m, err := materials(ctx, tx, certID)
		if err != nil {
			return err
		}
		if added > 0 {
			if err := s.wrapMissing(ctx, tx, c.Policy, &m, all); err != nil {
				return err
			}
		}
		pending = m.KeyCiphertext != nil && c.Policy.WrapsForDevices() && len(all) == 1 && all[0].keyFP == nil
		if added == 0 {
			return nil
		}
		if err := s.planReissue(ctx, tx, &c, &m, all); err != nil {
			return err
		}
		if err := s.announce(ctx, tx, &c, &m, all); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "certificate.assign", Object: object(certID), Detail: map[string]any{"device_id": d.ID},
		})
	})
	return pending, err
}

// lockDevice keeps the device's row as it is until tx ends. The row belongs to
// the area devices; nothing is written. The weaker lock of PostgreSQL lets rows
// that refer to the device be inserted meanwhile: others do so while they hold
// the certificate that is locked next here.
func lockDevice(ctx context.Context, tx *sqldb.Tx, deviceID int64) error {
	query := "SELECT id FROM devices WHERE id = $1"
	if tx.Dialect() == sqldb.Postgres {
		query += " FOR NO KEY UPDATE"
	}
	var id int64
	err := tx.QueryRowContext(ctx, query, deviceID).Scan(&id)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return fault.NotFound("device")
	}
	if err != nil {
		return fmt.Errorf("lock device: %w", err)
	}
	return nil
}

// assignByID is assign for a device named by its id.
func (s *Service) assignByID(ctx context.Context, userID, deviceID, certID int64) (pending bool, err error) {
	return s.assign(ctx, userID, certID, func(q sqldb.Querier) (devices.Device, error) {
		return s.Devices.Get(ctx, q, userID, deviceID)
	})
}

// assignByKey is assign for an API key, whose permission names the certificate
// (api.md, rule 4 of Authentication; decisions.md section 3).
func (s *Service) assignByKey(ctx context.Context, caller *access.Caller, devicePublicID string) (pending bool, err error) {
	all, ids := caller.All(scope, "read")
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	switch {
	case all || len(ids) == 0:
		return false, fault.Forbidden("The API key must be granted certificates read for one certificate by its id, not for *.")
	case len(ids) > 1:
		return false, fault.Invalid("permissions", "the API key is granted several certificates; use a key for the one to assign")
	}
	return s.assign(ctx, caller.UserID, ids[0], func(q sqldb.Querier) (devices.Device, error) {
		if tx, ok := q.(*sqldb.Tx); ok && s.APIKeys != nil { // revoked since the request was let in?
			if err := s.APIKeys.Check(ctx, tx, caller.KeyID); err != nil {
				return devices.Device{}, err
			}
		}
		return s.Devices.GetByPublicID(ctx, q, caller.UserID, devicePublicID)
	})
}

// unassign takes the certificate from the device, with its wrap of the key.
func (s *Service) unassign(ctx context.Context, userID, deviceID, certID int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := s.Devices.Get(ctx, tx, userID, deviceID); err != nil {
			return err
		}
		if _, err := s.lock(ctx, tx, userID, certID); err != nil {
			return err
		}
		n, err := New(tx).unassign(ctx, unassignParams{DeviceID: deviceID, CertID: certID})
		if err != nil {
			return fmt.Errorf("unassign certificate: %w", err)
		}
		if n == 0 {
			return errNotFound()
		}
		if err := s.Feed.Append(ctx, tx, deviceID, feed.CertUnassigned(certID)); err != nil {
			return fmt.Errorf("signal cert.unassigned: %w", err)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "certificate.unassign", Object: object(certID), Detail: map[string]any{"device_id": deviceID},
		})
	})
}

// DeviceKeyChanged implements devices.KeyListener: what was sealed to the old
// key is dropped, what the server can open is sealed to the new one, and the
// device is told to fetch every assigned certificate that it can fetch.
// The rest is pending until a re-issue, which is planned.
func (s *Service) DeviceKeyChanged(ctx context.Context, tx *sqldb.Tx, d devices.Device) error {
	ids, err := New(tx).assignedTo(ctx, d.ID)
	if err != nil {
		return fmt.Errorf("list assigned certificates: %w", err)
	}
	if err := New(tx).dropDeviceWraps(ctx, d.ID); err != nil {
		return fmt.Errorf("drop wraps for the old key: %w", err)
	}
	type record struct {
		Certificate

		m       materialRow
		devices []assignee // this one
	}
	records := make([]record, 0, len(ids))
	for _, id := range ids { // all locks first, the lock of the stream last
		c, err := s.lock(ctx, tx, d.UserID, id)
		if err != nil {
			return err
		}
		m, err := materials(ctx, tx, id)
		if err != nil {
			return err
		}
		one := []assignee{{deviceID: d.ID, publicKey: d.PublicKey}}
		if err := s.wrapMissing(ctx, tx, c.Policy, &m, one); err != nil {
			return err
		}
		if err := s.planReissue(ctx, tx, &c, &m, one); err != nil {
			return err
		}
		records = append(records, record{c, m, one})
	}
	for i := range records {
		r := &records[i]
		if err := s.announce(ctx, tx, &r.Certificate, &r.m, r.devices); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: d.UserID, Action: "certificate.rewrap", Object: fmt.Sprintf("device %d", d.ID), Detail: map[string]any{"certificates": len(ids)},
	})
}
