package devices

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// List returns a page of the caller's devices, newest first, and how many there
// are. A key sees those it was granted.
func (s *Service) List(ctx context.Context, c *access.Caller, page web.Page) (records []DeviceRecord, total int64, err error) {
	q, granted := New(s.DB.Reader()), grantedIDs(c)
	total, err = q.countDevices(ctx, countDevicesParams{UserID: c.UserID, Ids: granted})
	if err != nil {
		return nil, 0, fmt.Errorf("count devices: %w", err)
	}
	rows, err := q.listDevices(ctx, listDevicesParams{UserID: c.UserID, Ids: granted, MaxRows: page.Limit, FirstRow: page.Offset})
	if err != nil {
		return nil, 0, fmt.Errorf("list devices: %w", err)
	}
	waiting, err := waitingOf(ctx, q, c.UserID, rows)
	if err != nil {
		return nil, 0, err
	}
	records = make([]DeviceRecord, 0, len(rows))
	for _, row := range rows {
		d, err := fromRow(row)
		if err != nil {
			return nil, 0, err
		}
		d.Waiting = waiting[d.ID]
		records = append(records, d.record())
	}
	return records, total, nil
}

// waitingOf are the keys that wait for devices of a page, which is in falling order.
func waitingOf(ctx context.Context, q *Queries, userID int64, page []deviceRow) (map[int64]*WaitingKey, error) {
	if len(page) == 0 {
		return nil, nil
	}
	rows, err := q.waitingKeys(ctx, waitingKeysParams{UserID: userID, First: page[len(page)-1].ID, Last: page[0].ID})
	if err != nil {
		return nil, fmt.Errorf("list waiting keys: %w", err)
	}
	waiting := make(map[int64]*WaitingKey, len(rows))
	for _, row := range rows {
		waiting[row.DeviceID] = waitingFromRow(row)
	}
	return waiting, nil
}

// grantedIDs is null for all devices, otherwise ",1,2,".
func grantedIDs(c *access.Caller) sql.NullString {
	all, ids := c.All("devices", "read")
	if all {
		return sql.NullString{}
	}
	var list strings.Builder
	list.WriteByte(',')
	for _, id := range ids {
		list.WriteString(strconv.FormatInt(id, 10))
		list.WriteByte(',')
	}
	return sql.NullString{String: list.String(), Valid: true}
}

// Find returns a device of the caller by its device_public_id. What a key was
// not granted does not exist for it.
func (s *Service) Find(ctx context.Context, c *access.Caller, publicID string) (DeviceRecord, error) {
	d, err := s.GetByPublicID(ctx, s.DB.Reader(), c.UserID, publicID)
	if err != nil {
		return DeviceRecord{}, err
	}
	if !c.May("devices", "read", d.ID) {
		return DeviceRecord{}, fault.NotFound("device")
	}
	row, err := s.waitingKey(ctx, s.DB.Reader(), d.ID)
	if row != nil {
		d.Waiting = waitingFromRow(*row)
	}
	return d.record(), err
}

// Delete removes a device with its tokens and all that is assigned to it. Its
// tokens are refused from then on.
func (s *Service) Delete(ctx context.Context, userID, deviceID int64) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		publicID, err := New(tx).deleteDevice(ctx, deleteDeviceParams{ID: deviceID, UserID: userID})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return fault.NotFound("device")
		}
		if err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "device.delete", Object: object(deviceID), Detail: map[string]any{"device_public_id": publicID},
		})
	})
	s.devices.forget(deviceID)
	if err != nil {
		return fmt.Errorf("delete device: %w", err)
	}
	return nil
}
