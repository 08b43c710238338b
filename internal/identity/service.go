package identity

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Mailer sends letters when the transaction commits.
type Mailer interface {
	Enqueue(ctx context.Context, tx *sqldb.Tx, m mail.Message) error
}

// Inserter is what the area needs of the job engine.
type Inserter interface {
	Insert(ctx context.Context, tx *sqldb.Tx, args jobs.Args, options jobs.Options) error
}

// Deps are what the area needs. DB, Audit, Limiter, Log and Now are required;
// commands that only look after users do without Keys and Mail.
type Deps struct {
	DB      *sqldb.DB
	Audit   *audit.Log
	Limiter *ratelimit.Limiter
	Log     *slog.Logger
	Now     func() time.Time
	Keys    *seal.Keyring
	Mail    Mailer
	// BaseURL is the public address of this server, for letters.
	BaseURL string
	// CookieName is the session cookie's name, "" for DefaultCookie.
	CookieName string
	// HTTPS says that the public address is https: cookies are then Secure and
	// __Host- prefixed although a proxy speaks plain HTTP to us.
	HTTPS bool
	// Registration says who may make an account; the zero value means nobody.
	Registration RegistrationMode
	// Limits hold back guessing; the zero value means DefaultLimits.
	Limits Limits
	// Factors are the other ways to sign in; nil: none until SetFactors.
	Factors Factors
	// HashSlots bounds the password hashes that run at once; 0: half the cores.
	HashSlots int
}

// Service is the area's rules. Make one with NewService.
type Service struct {
	db           *sqldb.DB
	audit        *audit.Log
	limiter      *ratelimit.Limiter
	log          *slog.Logger
	now          func() time.Time
	cookies      cookies
	limits       Limits
	registration RegistrationMode
	passwords    *passwords
	factors      Factors
	codeKeys     *codeKeys
	mail         Mailer
	jobs         Inserter
	baseURL      string
	sliding      sync.Map // ids of sessions whose slide is being written
}

// NewService returns the area's service.
func NewService(d Deps) *Service {
	if d.Limits == (Limits{}) {
		d.Limits = DefaultLimits()
	}
	if d.Factors == nil {
		d.Factors = noFactors{}
	}
	if d.Registration == "" {
		d.Registration = RegistrationClosed
	}
	return &Service{
		db: d.DB, audit: d.Audit, limiter: d.Limiter, log: d.Log, now: d.Now,
		cookies: newCookies(d.CookieName, d.HTTPS), limits: d.Limits, registration: d.Registration, passwords: newPasswords(d.HashSlots, d.Log), factors: d.Factors,
		codeKeys: &codeKeys{db: d.DB, keyring: d.Keys}, mail: d.Mail, baseURL: d.BaseURL,
	}
}

// UseJobs sets the engine, which can only be made after Register. Registration
// and forgotten passwords need it.
func (s *Service) UseJobs(j Inserter) { s.jobs = j }
