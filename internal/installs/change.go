package installs

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/sqldb"
)

// change makes one new version: it finds the device, locks its configuration,
// lets edit change the content, and writes version, history, signal and audit
// entry in the same transaction. edit may run again and keeps nothing.
func (s *Service) change(ctx context.Context, verb, note string,
	find func(context.Context, *sqldb.Tx) (int64, error), edit func(*sqldb.Tx, *InstallConfig) error,
) (config Config, warnings []string, err error) {
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		deviceID, err := find(ctx, tx)
		if err != nil {
			return err
		}
		if err := tx.Keep(ctx, "devices", deviceID); err != nil {
			return err
		}
		now := s.now().Unix()
		row, err := getConfigLocked(ctx, tx, deviceID, now)
		if err != nil {
			return err
		}
		script := row.AfterUpdateScript
		if err := edit(tx, &row); err != nil {
			return err
		}
		if warnings, err = s.examine(ctx, tx, &row, verb != "patch"); err != nil {
			return err
		}
		row.Version++
		row.UpdatedBy = author(access.From(ctx))
		row.UpdatedAt = max(now, row.UpdatedAt)
		if err := write(ctx, tx, row, note); err != nil {
			return err
		}
		if user := userOf(access.From(ctx)); s.stored != nil && user != 0 {
			if err := s.stored(ctx, tx, user); err != nil {
				return err
			}
		}
		if err := s.feed.Append(ctx, tx, deviceID, feed.InstallUpdated(row.ID, row.Version, row.InstallsHash)); err != nil {
			return err
		}
		err = s.audit.Record(ctx, tx, audit.Entry{
			UserID: userOf(access.From(ctx)), Action: "install_config." + verb, Object: fmt.Sprintf("device %d", deviceID),
			Detail: map[string]any{"version": row.Version, "installs_hash": row.InstallsHash, "script_changed": script != row.AfterUpdateScript},
		})
		if err != nil {
			return err
		}
		config, err = served(row)
		return err
	})
	return config, warnings, err
}

// author names who wrote a version.
func author(c *access.Caller) string {
	switch {
	case c == nil:
		return "system"
	case c.Kind == access.KindKey:
		return fmt.Sprintf("key %d", c.KeyID)
	}
	return fmt.Sprintf("user %d", c.UserID)
}

func userOf(c *access.Caller) int64 {
	if c == nil {
		return 0
	}
	return c.UserID
}
