package app

import (
	"context"

	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/sqldb"
)

// deviceIDs gives installs the one thing it needs of a device.
type deviceIDs struct{ devices *devices.Service }

// DeviceID implements installs.Devices.
func (d deviceIDs) DeviceID(ctx context.Context, q sqldb.Querier, userID, deviceID int64) (int64, error) {
	device, err := d.devices.Get(ctx, q, userID, deviceID)
	return device.ID, err
}

// DeviceIDByPublicID implements installs.Devices.
func (d deviceIDs) DeviceIDByPublicID(ctx context.Context, q sqldb.Querier, userID int64, publicID string) (int64, error) {
	device, err := d.devices.GetByPublicID(ctx, q, userID, publicID)
	return device.ID, err
}
