package issuance

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/webhooks"
)

// Certs is what issuance needs of the certificates; certs.Service is one.
type Certs interface {
	Record(ctx context.Context, q sqldb.Querier, userID, certID int64) (certs.Certificate, error)
	Hold(ctx context.Context, tx *sqldb.Tx, certID int64) error
	Store(ctx context.Context, tx *sqldb.Tx, in certs.Issued) (certs.Certificate, error)
	NoteIssue(ctx context.Context, tx *sqldb.Tx, certID, issuanceID int64, status string, at int64) error
	Keys
	Renewals
	Reissues
}

// Renewals are the certificates that are due.
type Renewals interface {
	DueForRenewal(ctx context.Context, q sqldb.Querier, now, after int64, users, each int) (due []certs.Due, seen int64, err error)
	PutOffRenewal(ctx context.Context, tx *sqldb.Tx, c *certs.Certificate, at int64) error
	BlockRenewal(ctx context.Context, tx *sqldb.Tx, c *certs.Certificate, reason string) (bool, error)
	PostponeRenewal(ctx context.Context, tx *sqldb.Tx, certID, at int64) error
	ReplanRenewals(ctx context.Context, tx *sqldb.Tx, latest int64) error
}

// Keys are the private keys of attempts.
type Keys interface {
	CSRFor(ctx context.Context, q sqldb.Querier, cert certs.Certificate) (csrDER, keyDER []byte, err error)
	SealKey(ctx context.Context, tx *sqldb.Tx, certID int64, keyDER []byte) ([]byte, error)
}

// Reissues are the keys that devices lack.
type Reissues interface {
	DueForReissue(ctx context.Context, q sqldb.Querier, now int64, limit int) ([]certs.Certificate, error)
	TakeReissue(ctx context.Context, tx *sqldb.Tx, certID int64) (bool, error)
	PostponeReissue(ctx context.Context, tx *sqldb.Tx, certID, at int64) error
}

// NameRules tell whose names are; names.Service is one.
type NameRules interface {
	MayOrder(ctx context.Context, tx *sqldb.Tx, o names.Order) error
	Check(ctx context.Context, q sqldb.Querier, o names.Order) error
	Finalize(ctx context.Context, tx *sqldb.Tx, a names.Attempt) error
	Issued(ctx context.Context, tx *sqldb.Tx, issuanceID int64) error
	Ended(ctx context.Context, tx *sqldb.Tx, issuanceID int64) error
	Prove(ctx context.Context, o names.Order) (bool, error)
}

// Webhooks queues the event of a success; webhooks.Service is one.
type Webhooks interface {
	Issued(ctx context.Context, tx *sqldb.Tx, e webhooks.Event) error
}

// Inserter enqueues jobs; jobs.Engine is one.
type Inserter interface {
	Insert(ctx context.Context, tx *sqldb.Tx, args jobs.Args, options jobs.Options) error
}

// Deps are what a Service needs.
type Deps struct {
	DB       *sqldb.DB
	Audit    *audit.Log
	Keys     *seal.Keyring
	Log      *slog.Logger
	Now      func() time.Time
	Certs    Certs
	Accounts *acmeaccounts.Service
	Webhooks Webhooks
	Names    NameRules
	// Attempt counts an attempt that a caller starts, and refuses one too many.
	// Nil: none is refused.
	Attempt func(ctx context.Context, tx *sqldb.Tx, userID int64) error
}

// Service runs attempts.
type Service struct {
	Deps
	jobs    Inserter
	node    string                                           // names this process as the holder of leases
	backoff func(tries int64, p *acme.Problem) time.Duration // wait after the tries-th failure in a row
	sleep   func(ctx context.Context, d time.Duration) error // in the middle of a run
	reached func(ctx context.Context, step string)           // for tests: a step, or "save" and its name, is about to begin
	mu      sync.Mutex
	running map[int64]context.CancelCauseFunc // the attempts this process works on
	renewed int64                             // the user whose renewal the last sweep started last
	asked   sync.Map                          // attempt → *asked, while it waits for validation
	doors   map[int64]chan struct{}           // one registration per account at a time
	turns   *jobs.Turns
	clock   *clock
}

// NewService returns the service. Nothing runs before UseJobs and Register.
func NewService(d Deps) *Service {
	return &Service{
		Deps: d, node: seal.NewToken("node_", 12), backoff: backoff, sleep: sleep,
		reached: func(context.Context, string) {},
		running: map[int64]context.CancelCauseFunc{}, doors: map[int64]chan struct{}{},
		turns: jobs.NewTurns(places), clock: &clock{settle: settle},
	}
}

// UseJobs sets the engine, which can only be made after Register.
func (s *Service) UseJobs(j Inserter) { s.jobs = j }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
