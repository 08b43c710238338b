package devices

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	defaultAccessTTL  = time.Hour           // of access tokens (wire.md section 2)
	refreshTTL        = 30 * 24 * time.Hour // of refresh tokens (wire.md section 2)
	codeTTL           = 10 * time.Minute    // of registration codes
	againLimit        = 24 * time.Hour      // how long a token whose successors nobody used is answered again
	againPerHour      = 60                  // such answers for a device: each is an entry of the log, maybe a letter
	reuseGrace        = 15 * time.Minute    // after a successor's first use: an older token shown then ends nothing
	keptSiblings      = 32                  // unused pairs for one predecessor, the newest
	keptPairs         = 50                  // of a family, beside those that are good
	keptFamilies      = 8                   // that are over, per device
	replayGrace       = 60 * time.Second    // decisions.md 7.5
	defaultWrongCodes = 1000                // per address and hour (decisions.md 8.2)
)

// KeyListener is told within the transaction that a known device registered
// with another dev_pk. d holds the new key; what was sealed to the old one is
// of no use to the device any more (wire.md section 4).
type KeyListener interface {
	DeviceKeyChanged(ctx context.Context, tx *sqldb.Tx, d Device) error
}

// SessionRefresher is the half of POST /auth/refresh that serves people: it
// slides the session of the caller in ctx, rotates its id and returns the
// cookies to set.
type SessionRefresher interface {
	RefreshSession(ctx context.Context) ([]*http.Cookie, error)
}

// StepUp tells whether a person has proved recently enough who they are.
type StepUp interface {
	// RequireStepUp refuses (5034) the caller of ctx who must prove it afresh;
	// API keys pass.
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// APIKeys tells whether the API key of a request is still good, within the
// transaction that acts for it.
type APIKeys interface {
	// Check returns the fault that a request with the key now gets.
	Check(ctx context.Context, tx *sqldb.Tx, keyID int64) error
}

// Deps are what the area needs. DB, Audit, Keyring and Limiter are required.
type Deps struct {
	DB       *sqldb.DB
	Audit    *audit.Log
	Keyring  *seal.Keyring
	Limiter  *ratelimit.Limiter
	Keys     KeyListener      // nil: nobody
	Sessions SessionRefresher // nil: an empty POST /auth/refresh is refused
	StepUp   StepUp           // nil: not asked
	APIKeys  APIKeys          // nil: not asked
	// Tell tells the owner of a device, in the transaction that gives reason to.
	// Nil: it stands in the audit log alone.
	Tell    func(ctx context.Context, tx *sqldb.Tx, n Notice) error
	Log     *slog.Logger     // nil: discarded
	Now     func() time.Time // nil: time.Now
	BaseURL string           // public address without a trailing slash, for verification_uri

	// Quota refuses a user who has too many devices. Nil: nobody has.
	Quota func(ctx context.Context, tx *sqldb.Tx, userID int64) error

	AccessTTL  time.Duration // lifetime of access tokens, 0: one hour
	WrongCodes int           // wrong codes per address and hour, 0: 1000
}

// Service is the area's one way in.
type Service struct {
	Deps
	signer   *signer
	verified recent[[32]byte, *verified]
	devices  *stateCache[deviceState]
	users    *stateCache[string] // their status
}

// NewService returns the service. Keys and Sessions may be set afterwards, but
// before the first request.
func NewService(d Deps) *Service {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.AccessTTL == 0 {
		d.AccessTTL = defaultAccessTTL
	}
	if d.WrongCodes == 0 {
		d.WrongCodes = defaultWrongCodes
	}
	d.BaseURL = strings.TrimRight(d.BaseURL, "/")
	maxAge := otherProcessAge
	if d.DB.Dialect() == sqldb.SQLite {
		maxAge = oneProcessAge
	}
	return &Service{
		Deps:    d,
		signer:  &signer{db: d.DB, keyring: d.Keyring, now: d.Now},
		devices: newStateCache[deviceState](maxAge),
		users:   newStateCache[string](otherProcessAge),
	}
}

// fresh refuses a person without a fresh proof: a device can get private keys
// and runs commands, so that it is worth what it holds.
func (s *Service) fresh(ctx context.Context) error {
	if s.StepUp == nil || access.From(ctx) == nil {
		return nil
	}
	return s.StepUp.RequireStepUp(ctx, s.DB.Reader())
}

// Get returns a device of the user, or the fault NotFound("device").
func (s *Service) Get(ctx context.Context, q sqldb.Querier, userID, deviceID int64) (Device, error) {
	row, err := New(q).getDevice(ctx, getDeviceParams{ID: deviceID, UserID: userID})
	return found(row, err, "get device")
}

// GetByPublicID is Get by the device_public_id, which may be in any case; a
// malformed one is 5000.
func (s *Service) GetByPublicID(ctx context.Context, q sqldb.Querier, userID int64, publicID string) (Device, error) {
	id, err := ParsePublicID(publicID)
	if err != nil {
		return Device{}, err
	}
	row, err := New(q).getDeviceByPublicID(ctx, getDeviceByPublicIDParams{UserID: userID, PublicID: id})
	return found(row, err, "get device by public id")
}

// requireActive refuses when the user may not act any more, whose answer is
// refusal.
func (s *Service) requireActive(ctx context.Context, q sqldb.Querier, userID int64, refusal error) error {
	status, err := New(q).readUserStatus(ctx, userID)
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		return refusal
	case err != nil:
		return fmt.Errorf("read user status: %w", err)
	case status != StatusActive:
		return refusal
	}
	return nil
}
