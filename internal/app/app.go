package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmeaccounts"
	"certharbor.dev/certharbor/internal/administration"
	"certharbor.dev/certharbor/internal/apikeys"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/installs"
	"certharbor.dev/certharbor/internal/issuance"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/passkeys"
	"certharbor.dev/certharbor/internal/providers"
	"certharbor.dev/certharbor/internal/quotas"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
	"certharbor.dev/certharbor/internal/webhooks"
)

// Options are what the settings do not say.
type Options struct {
	Version string
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now

	// For tests: faults of the store and of outgoing calls, and what names
	// resolve to.
	CommitFault func() bool
	ACMEFault   func(*http.Request) outbound.Fault
	Lookup      func(ctx context.Context, host string) ([]netip.Addr, error)
	DNSPort     uint16 // of name servers; 0: 53
}

// App is the whole server without its listeners. It is an http.Handler.
type App struct {
	config     Config
	version    string
	log        *slog.Logger
	now        func() time.Time
	db         *sqldb.DB
	keys       *seal.Keyring
	acme       *acme.Pool
	areas      areas
	jobs       *jobs.Engine
	mux        *web.Mux
	challenges http.Handler
}

// areas are the services, in the order of the graph.
type areas struct {
	audit     *audit.Log
	limiter   *ratelimit.Limiter
	mail      *mail.Service
	identity  *identity.Service
	passkeys  *passkeys.Service
	providers *providers.Service
	apikeys   *apikeys.Service
	devices   *devices.Service
	feed      *feed.Service
	accounts  *acmeaccounts.Service
	names     *names.Service
	certs     *certs.Service
	installs  *installs.Service
	webhooks  *webhooks.Service
	quotas    *quotas.Service
	issuance  *issuance.Service

	administration *administration.Service
}

// New opens the database and the master key of the settings and connects the
// areas. Nothing runs in the background before Start.
func New(ctx context.Context, c Config, o Options) (*App, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	db, err := openDatabase(ctx, c, o.Log, o.CommitFault)
	if err != nil {
		return nil, err
	}
	a := &App{config: c, version: o.Version, log: o.Log, now: o.Now, db: db}
	if err := a.connect(ctx, o); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *App) connect(ctx context.Context, o Options) (err error) {
	if a.keys, err = openKeyring(ctx, a.db, a.config.masterKeyPath()); err != nil {
		return err
	}
	if err := a.makeAreas(ctx, o); err != nil {
		return err
	}
	a.countQuotas()
	registry := jobs.NewRegistry()
	a.register(registry)
	quiet := slog.New(levelHandler{a.log.Handler(), slog.LevelWarn})
	if a.jobs, err = jobs.New(ctx, a.db, registry, quiet); err != nil {
		return err
	}
	a.areas.mail.UseJobs(a.jobs)
	a.areas.identity.UseJobs(a.jobs)
	a.areas.names.UseJobs(a.jobs)
	a.areas.webhooks.UseJobs(a.jobs)
	a.areas.issuance.UseJobs(a.jobs)
	if a.mux, err = a.mount(o.Version); err != nil {
		return err
	}
	a.challenges = a.areas.issuance.Challenges()
	return nil
}

func (a *App) makeAreas(ctx context.Context, o Options) error {
	webhookCIDRs, err := prefixes(a.config.WebhookAllowCIDRs)
	if err != nil {
		return fmt.Errorf("webhook-allow-cidrs: %w", err)
	}
	acmeCIDRs, err := prefixes(a.config.ACMEAllowCIDRs)
	if err != nil {
		return fmt.Errorf("acme-allow-cidrs: %w", err)
	}
	providerCIDRs, err := prefixes(a.config.ProviderAllowCIDRs)
	if err != nil {
		return fmt.Errorf("provider-allow-cidrs: %w", err)
	}
	a.acme = acme.NewPool(acme.Options{AllowCIDRs: acmeCIDRs, UserAgent: "certharbor/" + o.Version, Now: a.now, Fault: o.ACMEFault, Lookup: o.Lookup})
	s := &a.areas
	trail, err := audit.Open(ctx, audit.Deps{DB: a.db, Keys: a.keys, Now: a.now, Log: a.log, Stamp: a.config.auditStampPath(), Used: identity.AnyIn})
	if err != nil {
		return err
	}
	s.audit = trail
	s.limiter = ratelimit.NewLimiter(a.db, a.now)
	if s.quotas, err = newQuotas(a.config, a.db, trail, s.limiter); err != nil {
		return err
	}
	transport, err := a.mailTransport()
	if err != nil {
		return err
	}
	limits, err := identity.ParseLimits(a.config.Limits)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	registration, err := identity.ParseRegistration(a.config.Registration)
	if err != nil {
		return fmt.Errorf("registration: %w", err)
	}
	s.mail = mail.NewService(mail.Deps{DB: a.db, Audit: trail, Keys: a.keys, Transport: transport, Log: a.log, Now: a.now})
	s.identity = identity.NewService(identity.Deps{
		DB: a.db, Audit: trail, Limiter: s.limiter, Log: a.log, Now: a.now, Keys: a.keys, Mail: s.mail, BaseURL: a.config.PublicURL(), Limits: limits,
		CookieName: a.config.SessionCookie, HTTPS: a.config.HTTPS(), Registration: registration,
	})
	if err := s.identity.Prepare(ctx); err != nil {
		return err
	}
	s.passkeys = passkeys.NewService(passkeys.Deps{
		DB: a.db, Audit: trail, Identity: s.identity, Limiter: s.limiter, Log: a.log, Now: a.now, BaseURL: a.config.PublicURL(),
	})
	signIn, err := providers.Parse(a.config.signInSettings())
	if err != nil {
		return err
	}
	s.providers = providers.NewService(providers.Deps{
		DB: a.db, Audit: trail, Identity: s.identity, Limiter: s.limiter, Log: a.log, Now: a.now, BaseURL: a.config.PublicURL(),
		Settings: signIn, Outbound: outbound.Options{AllowCIDRs: providerCIDRs, Lookup: o.Lookup},
	})
	s.identity.SetFactors(factors{s.passkeys, s.providers})
	s.apikeys = apikeys.NewService(apikeys.Deps{DB: a.db, Audit: trail, StepUp: s.identity, Log: a.log, Now: a.now, Quota: s.quotas.One(quotas.APIKeys)})
	s.devices = devices.NewService(devices.Deps{
		DB: a.db, Audit: trail, Keyring: a.keys, Limiter: s.limiter, Sessions: s.identity, StepUp: s.identity, APIKeys: s.apikeys, Tell: a.tellOfDevice,
		Log: a.log, Now: a.now, BaseURL: a.config.PublicURL(), Quota: s.quotas.One(quotas.Devices),
	})
	s.feed = feed.NewService(feed.Deps{DB: a.db, Now: a.now})
	s.accounts = acmeaccounts.NewService(acmeaccounts.Deps{
		DB: a.db, Audit: trail, Keys: a.keys, ACME: a.acme, StepUp: s.identity, Now: a.now,
		Quota: s.quotas.One(quotas.Accounts), Limiter: s.limiter,
	})
	records, err := a.config.nameRecords(o)
	if err != nil {
		return err
	}
	if s.names, err = names.Open(ctx, names.Deps{
		DB: a.db, Audit: trail, Keys: a.keys, Users: s.identity, Log: a.log, Now: a.now, Proved: a.config.namePolicy() == policyProved,
		Reserved: a.config.reservedNames(), Directories: a.config.ClaimDirectories, Limiter: s.limiter, StepUp: s.identity, Records: records,
		Certificates: nameCertificates{a}, Attempts: nameAttempts{a}, Tell: s.identity.Tell,
	}); err != nil {
		return err
	}
	s.certs = certs.NewService(certs.Deps{
		DB: a.db, Audit: trail, Keys: a.keys, Devices: s.devices, Feed: s.feed, Accounts: s.accounts, APIKeys: s.apikeys, StepUp: s.identity,
		Names: s.names, Log: a.log, Now: a.now, Quota: s.quotas.One(quotas.Certificates), Stored: s.quotas.Stored,
	})
	s.devices.Keys = s.certs // a device that comes back with another key has everything wrapped anew
	a.makeInstalls()
	a.makeWebhooks(outbound.Options{AllowCIDRs: webhookCIDRs, Lookup: o.Lookup})
	a.makeIssuance()
	s.certs.SetIssuer(s.issuance)
	a.administrate()
	return nil
}

// register declares the background work of every area.
func (a *App) register(r *jobs.Registry) {
	s := &a.areas
	s.limiter.Register(r)
	s.mail.Register(r)
	s.identity.Register(r)
	s.passkeys.Register(r)
	s.providers.Register(r)
	s.devices.Register(r)
	s.names.Register(r)
	s.certs.Register(r)
	s.webhooks.Register(r)
	s.issuance.Register(r)
	s.administration.Register(r)
}

// mount adds the routes of every area: the list of routes of the server.
func (a *App) mount(version string) (*web.Mux, error) {
	s := &a.areas
	proxies, err := a.config.proxies()
	if err != nil {
		return nil, err
	}
	m := web.New(web.Options{
		Proxies: proxies,
		Log:     a.log, Version: version, HTTPS: a.config.HTTPS(), Now: a.now, Refused: s.audit.RefuseAccess, Known: showed,
		Auth: web.Authenticator{Session: s.identity.Session, Device: s.devices.AuthenticateDevice, Key: s.apikeys.Authenticate, Worker: noWorkers},
	})
	mountHealth(m, a.db, version)
	mountFront(m)
	s.audit.Mount(m)
	s.quotas.Mount(m)
	s.identity.Mount(m)
	s.passkeys.Mount(m)
	s.providers.Mount(m)
	s.apikeys.Mount(m)
	s.devices.Mount(m)
	s.feed.Mount(m)
	s.accounts.Mount(m)
	s.names.Mount(m)
	s.certs.Mount(m)
	s.issuance.Mount(m)
	s.installs.Mount(m)
	s.webhooks.Mount(m)
	s.administration.Mount(m)
	return m, m.MountDocs()
}

// ServeHTTP implements http.Handler.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Mux is the router, for the tests that read its routes.
func (a *App) Mux() *web.Mux { return a.mux }

// Start begins the background work.
func (a *App) Start(ctx context.Context) error {
	if err := a.areas.names.Upgrade(ctx); err != nil {
		return err
	}
	if err := a.jobs.Start(ctx); err != nil {
		return fmt.Errorf("start background work: %w", err)
	}
	a.areas.apikeys.Start(ctx)
	a.areas.audit.Start(ctx, a.version)
	return nil
}

// Release ends what waits for news, so that a stop need not wait for it.
func (a *App) Release() { a.areas.feed.Close() }

// Stop lets background work finish until ctx is done.
func (a *App) Stop(ctx context.Context) error {
	return errors.Join(a.jobs.Stop(ctx), a.areas.apikeys.Stop(ctx), a.areas.audit.Stop(ctx))
}

// Close gives everything back. Call it after Stop.
func (a *App) Close() {
	if a.acme != nil {
		a.acme.Close()
	}
	if err := a.db.Close(); err != nil {
		a.log.Error("close database", "error", err)
	}
}
