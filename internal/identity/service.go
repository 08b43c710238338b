package identity

import (
	"log/slog"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Limit is how many failures are allowed within a window.
type Limit struct {
	Max    int
	Window time.Duration
}

// Limits hold back guessing (decisions.md section 8.2).
type Limits struct {
	WrongPasswordsPerAccount Limit
	WrongPasswordsPerAddress Limit
}

// DefaultLimits are those of decisions.md section 8.2.
func DefaultLimits() Limits {
	return Limits{
		WrongPasswordsPerAccount: Limit{Max: 10, Window: 15 * time.Minute},
		WrongPasswordsPerAddress: Limit{Max: 100, Window: 15 * time.Minute},
	}
}

// Deps are what the area needs. DB, Audit, Limiter, Log and Now are required.
type Deps struct {
	DB      *sqldb.DB
	Audit   *audit.Log
	Limiter *ratelimit.Limiter
	Log     *slog.Logger
	Now     func() time.Time
	// CookieName is the session cookie's name, "" for DefaultCookie.
	CookieName string
	// HTTPS says that the public address is https: cookies are then Secure and
	// __Host- prefixed although a proxy speaks plain HTTP to us.
	HTTPS bool
	// Limits hold back guessing; the zero value means DefaultLimits.
	Limits Limits
	// Factors are the other ways to sign in; nil: none until SetFactors.
	Factors Factors
	// HashSlots bounds the password hashes that run at once; 0: half the cores.
	HashSlots int
}

// Service is the area's rules. Make one with NewService.
type Service struct {
	db        *sqldb.DB
	audit     *audit.Log
	limiter   *ratelimit.Limiter
	log       *slog.Logger
	now       func() time.Time
	cookies   cookies
	limits    Limits
	passwords *passwords
	factors   Factors
	sliding   sync.Map // ids of sessions whose slide is being written
}

// NewService returns the area's service.
func NewService(d Deps) *Service {
	if d.Limits == (Limits{}) {
		d.Limits = DefaultLimits()
	}
	if d.Factors == nil {
		d.Factors = noFactors{}
	}
	return &Service{
		db: d.DB, audit: d.Audit, limiter: d.Limiter, log: d.Log, now: d.Now,
		cookies: newCookies(d.CookieName, d.HTTPS), limits: d.Limits, passwords: newPasswords(d.HashSlots, d.Log), factors: d.Factors,
	}
}
