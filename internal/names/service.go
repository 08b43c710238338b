package names

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/authdns"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Users is what the area needs to know of users.
type Users interface {
	// IsAdmin reports whether the user has the role of administrators.
	IsAdmin(ctx context.Context, q sqldb.Querier, userID int64) (bool, error)
	// Exists reports whether there is such a user, who is not disabled.
	Exists(ctx context.Context, q sqldb.Querier, userID int64) (bool, error)
}

// StepUp tells whether a person has proved recently enough who they are.
type StepUp interface {
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// Records looks for TXT records; authdns.Client does. An error that is an
// *authdns.ErrUnknown says that nothing was found out.
type Records interface {
	Proof(ctx context.Context, name, value string) (authdns.Finding, error)
}

// Certificates are what hangs on names.
type Certificates interface {
	// Judge blocks and unblocks the user's renewals of certificates with names in
	// the domain, as the rules are now.
	Judge(ctx context.Context, userID int64, domain string) error
	// StillValid lists the user's certificates for names at or below the name that
	// have not expired.
	StillValid(ctx context.Context, userID int64, name string) ([]ValidCertificate, error)
}

// Attempts are the orders under way.
type Attempts interface {
	// Withdraw takes back what is published in the domain for users who may not
	// order the names any more.
	Withdraw(ctx context.Context, tx *sqldb.Tx, domain string) error
	// Past calls each with what was issued at public authorities, the earliest
	// first.
	Past(ctx context.Context, each func(Success)) error
}

// Inserter enqueues jobs; jobs.Engine is one.
type Inserter interface {
	Insert(ctx context.Context, tx *sqldb.Tx, args jobs.Args, options jobs.Options) error
}

// Deps are what a Service needs. All are required but Log and the settings.
type Deps struct {
	DB    *sqldb.DB
	Audit *audit.Log
	Keys  *seal.Keyring
	Users Users
	Log   *slog.Logger
	Now   func() time.Time

	Limiter      *ratelimit.Limiter
	StepUp       StepUp
	Records      Records
	Certificates Certificates
	Attempts     Attempts
	// Tell writes a letter to a user, whose kind is the word in the log.
	Tell func(ctx context.Context, tx *sqldb.Tx, userID int64, kind string, letter mail.Letter) error

	Proved      bool     // the policy: nothing is ordered without a proof
	Reserved    Reserved // for administrators
	Directories []string // addresses of ACME directories whose certificates make claims
}

// Service holds the rules of names.
type Service struct {
	Deps
	rules rules
	key   []byte
	jobs  Inserter

	mu      sync.Mutex
	busy    int           // look-ups under way that users asked for
	busyFor map[int64]int // of them by user
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
	return &Service{Deps: d, rules: rules{proved: d.Proved, reserved: d.Reserved}, key: key, busyFor: map[int64]int{}}, nil
}
