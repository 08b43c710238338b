package installs

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Devices finds devices of a user. Both give the device's id, or the fault
// NotFound("device").
type Devices interface {
	DeviceID(ctx context.Context, q sqldb.Querier, userID, deviceID int64) (int64, error)
	// DeviceIDByPublicID also refuses a malformed device_public_id with 5000.
	DeviceIDByPublicID(ctx context.Context, q sqldb.Querier, userID int64, publicID string) (int64, error)
}

// Objects tells what a device would get of what its items name.
type Objects interface {
	// Certificates gives for those of the ids that are certificates of the user
	// why the device cannot fetch them with their key now, as the end of a
	// sentence about one; "" when it can.
	Certificates(ctx context.Context, q sqldb.Querier, userID, deviceID int64, ids []int64) (map[int64]string, error)
	// CAs gives those of the ids that are certificate authorities of the user.
	CAs(ctx context.Context, q sqldb.Querier, userID int64, ids []int64) (map[int64]bool, error)
}

// Feed appends signals; *feed.Service is one.
type Feed interface {
	Append(ctx context.Context, tx *sqldb.Tx, deviceID int64, s feed.Signal) error
}

// StepUp tells whether a person has proved recently enough who they are.
type StepUp interface {
	// RequireStepUp refuses (5034) the caller of ctx who must prove it afresh;
	// API keys pass.
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// Deps are what a Service needs; all but StepUp and Stored are required.
type Deps struct {
	DB      *sqldb.DB
	Audit   *audit.Log
	Feed    Feed
	Devices Devices
	Objects Objects
	StepUp  StepUp // nil: not asked
	Now     func() time.Time
	// Stored refuses a user who stores too much. Nil: nobody does.
	Stored func(ctx context.Context, tx *sqldb.Tx, userID int64) error
}

// Service reads and writes install configurations.
type Service struct {
	db      *sqldb.DB
	audit   *audit.Log
	feed    Feed
	devices Devices
	objects Objects
	stepUp  StepUp
	now     func() time.Time
	stored  func(context.Context, *sqldb.Tx, int64) error
}

// NewService returns a Service.
func NewService(d Deps) *Service {
	return &Service{db: d.DB, audit: d.Audit, feed: d.Feed, devices: d.Devices, objects: d.Objects, stepUp: d.StepUp, now: d.Now, stored: d.Stored}
}

// fresh refuses a person without a fresh proof: a configuration runs
// commands as root.
func (s *Service) fresh(ctx context.Context) error {
	if s.stepUp == nil || access.From(ctx) == nil {
		return nil
	}
	return s.stepUp.RequireStepUp(ctx, s.db.Reader())
}

// Get gives the configuration of a user's device.
func (s *Service) Get(ctx context.Context, userID, deviceID int64) (Config, error) {
	id, err := s.devices.DeviceID(ctx, s.db.Reader(), userID, deviceID)
	if err != nil {
		return Config{}, err
	}
	return s.Own(ctx, id)
}

// Own gives the configuration of a device that has authenticated itself.
func (s *Service) Own(ctx context.Context, deviceID int64) (Config, error) {
	return readConfig(ctx, s.db.Reader(), deviceID)
}

// Put replaces the items and, when it is set, the script. A person needs a fresh
// proof (5034). The warnings of every write say what keeps an agent from
// following the new version.
func (s *Service) Put(ctx context.Context, userID, deviceID int64, u Update) (Config, []string, error) {
	if err := s.fresh(ctx); err != nil {
		return Config{}, nil, err
	}
	_, installs, err := normalise(u.Installs)
	if err != nil {
		return Config{}, nil, err
	}
	if err := u.Script.check(); err != nil {
		return Config{}, nil, err
	}
	return s.change(ctx, "put", u.ChangeNote, s.byID(userID, deviceID), func(_ *sqldb.Tx, row *InstallConfig) error {
		row.Installs, row.InstallsHash = installs, digest(installs)
		if u.Script.Set {
			row.AfterUpdateScript = nullable(u.Script.Text)
		}
		return nil
	})
}

// Restore copies items and script of an earlier version into a new one. A person
// needs a fresh proof (5034).
func (s *Service) Restore(ctx context.Context, userID, deviceID, version int64, changeNote string) (Config, []string, error) {
	if err := s.fresh(ctx); err != nil {
		return Config{}, nil, err
	}
	if changeNote == "" {
		changeNote = fmt.Sprintf("restored version %d", version)
	}
	return s.change(ctx, "restore", changeNote, s.byID(userID, deviceID), func(tx *sqldb.Tx, row *InstallConfig) error {
		old, err := readVersion(ctx, tx, row.DeviceID, version)
		if err != nil {
			return err
		}
		row.Installs, row.InstallsHash, row.AfterUpdateScript = old.Installs, old.InstallsHash, old.AfterUpdateScript
		return nil
	})
}

// Patch applies all changes or none. A key that is granted single devices gets
// the answer of an absent one for any other (decisions.md section 3).
func (s *Service) Patch(ctx context.Context, caller *access.Caller, publicID string, c Changes) (Config, []string, error) {
	find := func(ctx context.Context, tx *sqldb.Tx) (int64, error) {
		id, err := s.devices.DeviceIDByPublicID(ctx, tx, caller.UserID, publicID)
		if err == nil && !caller.May("ForInstallConfigUpdate", "update", id) {
			err = fault.NotFound("device")
		}
		return id, err
	}
	return s.change(ctx, "patch", "", find, func(_ *sqldb.Tx, row *InstallConfig) error {
		if len(c.Patches) > 0 {
			items, err := decodeItems(row.Installs)
			if err != nil {
				return err
			}
			if items, err = apply(items, c.Patches); err != nil {
				return err
			}
			if _, row.Installs, err = normalise(items); err != nil {
				return err
			}
		}
		row.InstallsHash = digest(row.Installs)
		if c.Script.Set {
			row.AfterUpdateScript = nullable(c.Script.Text)
		}
		return nil
	})
}

// Histories lists the versions of a device, newest first, and their number.
func (s *Service) Histories(ctx context.Context, userID, deviceID, offset, limit int64) ([]History, int64, error) {
	id, err := s.devices.DeviceID(ctx, s.db.Reader(), userID, deviceID)
	if err != nil {
		return nil, 0, err
	}
	return readHistories(ctx, s.db.Reader(), id, offset, limit)
}

// Version gives one version with its content.
func (s *Service) Version(ctx context.Context, userID, deviceID, version int64) (Version, error) {
	id, err := s.devices.DeviceID(ctx, s.db.Reader(), userID, deviceID)
	if err != nil {
		return Version{}, err
	}
	row, err := readVersion(ctx, s.db.Reader(), id, version)
	if err != nil {
		return Version{}, err
	}
	items, err := decodeItems(row.Installs)
	if err != nil {
		return Version{}, fmt.Errorf("install config version %d of device %d: %w", version, id, err)
	}
	history := History{Version: row.Version, ChangeNote: row.ChangeNote, UpdatedBy: row.UpdatedBy, CreatedAt: row.CreatedAt, InstallsHash: row.InstallsHash}
	return Version{History: history, Installs: items, Script: text(row.AfterUpdateScript)}, nil
}

func (s *Service) byID(userID, deviceID int64) func(context.Context, *sqldb.Tx) (int64, error) {
	return func(ctx context.Context, tx *sqldb.Tx) (int64, error) {
		return s.devices.DeviceID(ctx, tx, userID, deviceID)
	}
}
