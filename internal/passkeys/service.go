package passkeys

import (
	"log/slog"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// DefaultChallenges bounds how many challenges an address, or a signed-in user,
// can have made: each is a row.
func DefaultChallenges() identity.Limit {
	return identity.Limit{Max: 1000, Window: 15 * time.Minute}
}

// Deps are what the area needs. All but Challenges are required.
type Deps struct {
	DB       *sqldb.DB
	Audit    *audit.Log
	Identity *identity.Service
	Limiter  *ratelimit.Limiter
	Log      *slog.Logger
	Now      func() time.Time
	// BaseURL is the public address of the server, which decides for whom
	// passkeys are: https://certs.example.org.
	BaseURL string
	// Challenges is per address and per user; the zero value means
	// DefaultChallenges.
	Challenges identity.Limit
}

// Service is the area's rules. Make one with NewService.
type Service struct {
	db         *sqldb.DB
	audit      *audit.Log
	identity   *identity.Service
	limiter    *ratelimit.Limiter
	log        *slog.Logger
	now        func() time.Time
	challenges identity.Limit
	rp         relyingParty
	missing    *fault.Error // why there is no relying party, nil: there is
	library    *webauthn.WebAuthn
}

// NewService returns the area's service.
func NewService(d Deps) *Service {
	if d.Challenges == (identity.Limit{}) {
		d.Challenges = DefaultChallenges()
	}
	s := &Service{
		db: d.DB, audit: d.Audit, identity: d.Identity, limiter: d.Limiter, log: d.Log, now: d.Now, challenges: d.Challenges,
	}
	if s.rp, s.missing = relyingPartyOf(d.BaseURL); s.missing != nil {
		return s
	}
	var err error
	s.library, err = webauthn.New(&webauthn.Config{RPID: s.rp.id, RPDisplayName: displayName, RPOrigins: []string{s.rp.origin}})
	if err != nil {
		s.missing = fault.Conflict("Passkeys cannot be used at the public address of this server; see its log.").Because(err)
	}
	return s
}

// available says why passkeys cannot be used at this server's address, if so.
func (s *Service) available() error {
	if s.missing != nil {
		return s.missing
	}
	return nil
}
