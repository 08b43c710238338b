package providers

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// DefaultAttempts bounds how many sign-ins an address, or bindings a user, can
// begin: each is a row.
func DefaultAttempts() identity.Limit {
	return identity.Limit{Max: 1000, Window: 15 * time.Minute}
}

// Deps are what the area needs. All but Outbound and Attempts are required.
type Deps struct {
	DB       *sqldb.DB
	Audit    *audit.Log
	Identity *identity.Service
	Limiter  *ratelimit.Limiter
	Log      *slog.Logger
	Now      func() time.Time
	// BaseURL is the public address of the server, to which providers send
	// browsers back: https://certs.example.org.
	BaseURL string
	// Settings are the providers.
	Settings Settings
	// Outbound says which addresses may be called.
	Outbound outbound.Options
	// Attempts is per address and per user; the zero value means
	// DefaultAttempts.
	Attempts identity.Limit
}

// Service is the area's rules. Make one with NewService.
type Service struct {
	db        *sqldb.DB
	audit     *audit.Log
	identity  *identity.Service
	limiter   *ratelimit.Limiter
	log       *slog.Logger
	now       func() time.Time
	attempts  identity.Limit
	origin    string // public address
	host      string // of it, with the port
	providers map[string]provider
	infos     []Info // all ways to sign in, in the order of the settings
	wallet    bool
	doors     map[string]Door // by the code of the provider
}

// NewService returns the area's service.
func NewService(d Deps) *Service {
	if d.Attempts == (identity.Limit{}) {
		d.Attempts = DefaultAttempts()
	}
	s := &Service{
		db: d.DB, audit: d.Audit, identity: d.Identity, limiter: d.Limiter, log: d.Log, now: d.Now,
		attempts: d.Attempts, providers: map[string]provider{}, infos: []Info{}, wallet: d.Settings.Solana,
		doors: map[string]Door{kindSolana: d.Settings.Wallet},
	}
	s.origin, s.host = publicOrigin(d.BaseURL)
	calls := client(d.Outbound)
	if d.Settings.GitHub != nil {
		s.add(github{settings: *d.Settings.GitHub, client: calls}, d.Settings.GitHub.Door)
	}
	if d.Settings.Weixin != nil {
		s.add(weixin{settings: *d.Settings.Weixin, client: calls}, d.Settings.Weixin.Door)
	}
	for _, settings := range d.Settings.OIDC {
		s.add(&openID{settings: settings, client: calls, now: d.Now}, settings.Door)
	}
	if s.wallet {
		s.infos = append(s.infos, walletInfo())
	}
	return s
}

func (s *Service) add(p provider, door Door) {
	s.providers[p.about().Provider], s.doors[p.about().Provider] = p, door
	s.infos = append(s.infos, p.about())
}

// provider finds one of the settings. The answer is the same for all that are
// not there.
func (s *Service) provider(code, kind string) (provider, error) {
	if p, ok := s.providers[code]; ok && (kind == "" || p.about().Kind == kind) {
		return p, nil
	}
	return nil, errNotSetUp()
}

func errNotSetUp() error {
	f := fault.NotFound("provider")
	f.What = "No such provider is set up at this server; its settings github, weixin, oidc and solana say which there are."
	return f
}

// publicOrigin is the public address as browsers must use it: a loopback address
// goes by the name localhost, as it does for passkeys, because a browser keeps
// the cookies of the two apart.
func publicOrigin(baseURL string) (origin, host string) {
	u, err := url.Parse(strings.TrimSuffix(baseURL, "/"))
	if err != nil {
		return baseURL, ""
	}
	if loopback(u.Host) {
		port := u.Port()
		if u.Host = "localhost"; port != "" {
			u.Host = net.JoinHostPort("localhost", port)
		}
	}
	return u.String(), u.Host
}

// loopback reports whether the host, with or without a port, is such an address.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

func (s *Service) https(ctx context.Context) bool {
	return web.OverTLS(ctx) || strings.HasPrefix(s.origin, "https:")
}
