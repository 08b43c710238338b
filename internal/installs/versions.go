package installs

import (
	"context"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// keepVersions and keepBytes bound the history of one device: what lies
	// behind either is gone. The current version always stays.
	keepVersions = 50
	keepBytes    = 8 << 20
	// keepCounters is how many devices that are gone a user's version numbers are
	// remembered for, one by one.
	keepCounters = 1000
	forgetBatch  = 100 // by one write
)

// prune drops the versions that are too many or too large together. first tells
// that the device has one version alone.
func prune(ctx context.Context, q *Queries, deviceID int64) (first bool, err error) {
	rows, err := q.sizes(ctx, sizesParams{DeviceID: deviceID, Max: keepVersions})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	oldest, total := rows[0].Version, int64(0)
	for i, row := range rows {
		if total += row.Bytes; i > 0 && total > keepBytes {
			break
		}
		oldest = row.Version
	}
	return len(rows) == 1, q.pruneVersions(ctx, pruneVersionsParams{DeviceID: deviceID, Oldest: oldest})
}

// count remembers the version for as long as the user may register a device of
// this public id again: an agent keeps its configuration over that, and takes a
// number that is not above its own for old. Of too many devices that are gone
// the oldest are forgotten; the highest number of those is then what every
// device without a number of its own begins behind. first tells that the device
// may be a new one.
func count(ctx context.Context, q *Queries, row InstallConfig, first bool) error {
	err := q.countVersion(ctx, countVersionParams{Version: row.Version, Now: row.UpdatedAt, DeviceID: row.DeviceID})
	if err != nil || !first {
		return err
	}
	userID, err := q.userOfDevice(ctx, row.DeviceID)
	if err != nil {
		return err
	}
	gone, err := q.forgettable(ctx, forgettableParams{UserID: userID, Max: forgetBatch, Keep: keepCounters})
	if err != nil || len(gone) == 0 {
		return err
	}
	highest := int64(0)
	for _, g := range gone {
		highest = max(highest, g.Version)
		if err := q.forget(ctx, forgetParams{UserID: userID, PublicID: g.PublicID}); err != nil {
			return err
		}
	}
	err = q.raiseForgotten(ctx, raiseForgottenParams{UserID: userID, Version: highest, Now: row.UpdatedAt})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil
	}
	return err
}
