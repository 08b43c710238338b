package certs

import (
	"context"
	"log/slog"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Accounts is what the area needs of ACME accounts.
type Accounts interface {
	// Get returns the user's account, or the fault NotFound("acme account").
	Get(ctx context.Context, q sqldb.Querier, userID, id int64) (acmeaccounts.Account, error)
}

// Devices is what the area needs of devices.
type Devices interface {
	// Get returns the user's device, or the fault NotFound("device").
	Get(ctx context.Context, q sqldb.Querier, userID, deviceID int64) (devices.Device, error)
	// GetByPublicID is Get by the device_public_id; a malformed one is 5000.
	GetByPublicID(ctx context.Context, q sqldb.Querier, userID int64, publicID string) (devices.Device, error)
}

// Feed is what the area needs of the streams of devices.
type Feed interface {
	// Append writes a signal; several devices are signalled in ascending order.
	Append(ctx context.Context, tx *sqldb.Tx, deviceID int64, signal feed.Signal) error
}

// Issuer is what the area needs of issuance.
type Issuer interface {
	// Start starts an issuance, or finds the one that is under way.
	Start(ctx context.Context, userID, certID int64, trigger string) error
	// VerifyDomain has the names verified without an order.
	VerifyDomain(ctx context.Context, tx *sqldb.Tx, cert Certificate) error
	// Revoke revokes a leaf at its CA. One that is revoked already is no error.
	Revoke(ctx context.Context, cert Certificate, leafDER []byte, reason int) error
}

// Keys tells whether the API key of a request is still good, within the
// transaction that acts for it.
type Keys interface {
	// Check returns the fault that a request with the key now gets.
	Check(ctx context.Context, tx *sqldb.Tx, keyID int64) error
}

// NameRules tell whether a user may have a certificate for names.
type NameRules interface {
	// Missing returns the fault that another user holds a name, or what has yet
	// to be proved, in sentences.
	Missing(ctx context.Context, tx *sqldb.Tx, o names.Order) ([]string, error)
	// Check returns the fault that the user may not order one of the names.
	Check(ctx context.Context, q sqldb.Querier, o names.Order) error
}

// StepUp tells whether a person has proved recently enough who they are.
type StepUp interface {
	// RequireStepUp refuses (5034) the caller of ctx who must sign in afresh
	// before a private key leaves; keys and devices pass.
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// Deps are what a Service needs. All but APIKeys and Log are
// required.
type Deps struct {
	DB       *sqldb.DB
	Audit    *audit.Log
	Keys     *seal.Keyring
	Accounts Accounts
	Devices  Devices
	Feed     Feed
	StepUp   StepUp
	Names    NameRules
	APIKeys  Keys // nil: not asked
	Log      *slog.Logger
	Now      func() time.Time
	// Quota and Stored refuse a user who has too many certificates, or too much
	// of them. Nil: nobody has.
	Quota, Stored func(ctx context.Context, tx *sqldb.Tx, userID int64) error
}

// Service holds the rules of certificate records.
type Service struct {
	Deps
	issuer     Issuer
	generating *jobs.Turns // RSA keys
}

// NewService returns the service; SetIssuer completes it.
func NewService(d Deps) *Service {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Service{Deps: d, generating: jobs.NewTurns(keyPlaces())}
}

// fresh refuses a person without a fresh proof: what it guards decides who gets
// a private key.
func (s *Service) fresh(ctx context.Context) error {
	if s.StepUp == nil || access.From(ctx) == nil {
		return nil
	}
	return s.StepUp.RequireStepUp(ctx, s.DB.Reader())
}

// SetIssuer connects issuance, before the first request.
func (s *Service) SetIssuer(i Issuer) { s.issuer = i }

const scope = "certificates"
