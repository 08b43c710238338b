package names

import (
	"context"
	"log/slog"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Users is what the area needs to know of users.
type Users interface {
	// IsAdmin reports whether the user has the role of administrators.
	IsAdmin(ctx context.Context, q sqldb.Querier, userID int64) (bool, error)
}

// Deps are what a Service needs. All are required but Log and the settings.
type Deps struct {
	DB    *sqldb.DB
	Audit *audit.Log
	Keys  *seal.Keyring
	Users Users
	Log   *slog.Logger
	Now   func() time.Time

	Proved      bool     // the policy: nothing is ordered without a proof
	Reserved    Reserved // for administrators
	Directories []string // addresses of ACME directories whose certificates make claims
}

// Service holds the rules of names.
type Service struct {
	Deps
	rules rules
	key   []byte
}

// Open returns the service. The first one on a database makes the key of the
// records.
func Open(ctx context.Context, d Deps) (*Service, error) {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	key, err := openKey(ctx, d)
	if err != nil {
		return nil, err
	}
	return &Service{Deps: d, rules: rules{proved: d.Proved, reserved: d.Reserved}, key: key}, nil
}
