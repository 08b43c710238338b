package installs

import (
	"context"
	"database/sql"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// getConfigLocked is getConfig of a writer.
func getConfigLocked(ctx context.Context, tx *sqldb.Tx, deviceID, nowS int64) (InstallConfig, error) {
	q := New(tx)
	// The row is there before it is locked, so that two first writers queue too.
	if err := q.makeConfig(ctx, makeConfigParams{DeviceID: deviceID, CreatedAt: nowS}); err != nil {
		return InstallConfig{}, fmt.Errorf("make the install config of device %d: %w", deviceID, err)
	}
	var id int64
	err := tx.QueryRowContext(ctx, "SELECT id FROM install_configs WHERE device_id = $1"+tx.Dialect().ForUpdate(), deviceID).Scan(&id)
	if sqldb.Is(err, sqldb.ErrNotFound) { // it went with its device meanwhile
		return InstallConfig{}, fault.NotFound("device")
	}
	if err != nil {
		return InstallConfig{}, fmt.Errorf("lock the install config of device %d: %w", deviceID, err)
	}
	row, err := q.getConfig(ctx, deviceID)
	if err != nil {
		return InstallConfig{}, fmt.Errorf("read the install config of device %d: %w", deviceID, err)
	}
	return row, nil
}

func readConfig(ctx context.Context, q sqldb.Querier, deviceID int64) (Config, error) {
	row, err := New(q).getConfig(ctx, deviceID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Config{UserDeviceID: deviceID, Installs: []Item{}}, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read the install config of device %d: %w", deviceID, err)
	}
	return served(row)
}

func served(row InstallConfig) (Config, error) {
	items, err := decodeItems(row.Installs)
	if err != nil {
		return Config{}, fmt.Errorf("install config %d: %w", row.ID, err)
	}
	return Config{
		ID: row.ID, UserDeviceID: row.DeviceID, Version: row.Version, Installs: items, InstallsHash: row.InstallsHash,
		Script: text(row.AfterUpdateScript), UpdatedBy: row.UpdatedBy, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}, nil
}

// write stores the row as the current version and in the history.
func write(ctx context.Context, tx *sqldb.Tx, row InstallConfig, changeNote string) error {
	q := New(tx)
	err := q.setConfig(ctx, setConfigParams{
		DeviceID: row.DeviceID, Version: row.Version, Installs: row.Installs, InstallsHash: row.InstallsHash,
		AfterUpdateScript: row.AfterUpdateScript, UpdatedBy: row.UpdatedBy, UpdatedAt: row.UpdatedAt,
	})
	if err != nil {
		return fmt.Errorf("write the install config of device %d: %w", row.DeviceID, err)
	}
	err = q.insertVersion(ctx, insertVersionParams{
		DeviceID: row.DeviceID, Version: row.Version, Installs: row.Installs, InstallsHash: row.InstallsHash,
		AfterUpdateScript: row.AfterUpdateScript, ChangeNote: changeNote, UpdatedBy: row.UpdatedBy, CreatedAt: row.UpdatedAt,
		Bytes: int64(len(row.Installs) + len(row.AfterUpdateScript.String)),
	})
	if err != nil {
		return fmt.Errorf("write install config version %d of device %d: %w", row.Version, row.DeviceID, err)
	}
	first, err := prune(ctx, q, row.DeviceID)
	if err != nil {
		return fmt.Errorf("prune the install config versions of device %d: %w", row.DeviceID, err)
	}
	if err := count(ctx, q, row, first); err != nil {
		return fmt.Errorf("count the install config versions of device %d: %w", row.DeviceID, err)
	}
	return nil
}

// Bytes tells how much the versions of the user's configurations take.
func (s *Service) Bytes(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).bytesOfUser(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("add up install configs: %w", err)
	}
	return n, nil
}

func readVersion(ctx context.Context, q sqldb.Querier, deviceID, version int64) (getVersionRow, error) {
	row, err := New(q).getVersion(ctx, getVersionParams{DeviceID: deviceID, Version: version})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return row, fault.NotFound("install config version")
	}
	if err != nil {
		return row, fmt.Errorf("read install config version %d of device %d: %w", version, deviceID, err)
	}
	return row, nil
}

func readHistories(ctx context.Context, q sqldb.Querier, deviceID, offset, limit int64) ([]History, int64, error) {
	queries := New(q)
	total, err := queries.countVersions(ctx, deviceID)
	if err != nil {
		return nil, 0, fmt.Errorf("count the install config versions of device %d: %w", deviceID, err)
	}
	// No page lies behind the last version; sqlc's offset has 32 bits.
	rows, err := queries.listVersions(ctx, listVersionsParams{DeviceID: deviceID, Limit: int32(limit), Offset: int32(min(offset, total))})
	if err != nil {
		return nil, 0, fmt.Errorf("list the install config versions of device %d: %w", deviceID, err)
	}
	histories := make([]History, 0, len(rows))
	for _, r := range rows {
		histories = append(histories, History{Version: r.Version, ChangeNote: r.ChangeNote, UpdatedBy: r.UpdatedBy, CreatedAt: r.CreatedAt, InstallsHash: r.InstallsHash})
	}
	return histories, total, nil
}

func text(s sql.NullString) *string {
	if !s.Valid {
		return nil
	}
	return &s.String
}

func nullable(s *string) sql.NullString {
	if s == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: *s, Valid: true}
}
