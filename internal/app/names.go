package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"certharbor.dev/certharbor/internal/authdns"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
)

// The values of name-policy.
const (
	policyFirstCome = "first-come"
	policyProved    = "proved"
)

// namePolicy is the policy in force. Where strangers may make an account, being
// first says nothing about whose a name is.
func (c Config) namePolicy() string {
	if c.NamePolicy != "" {
		return c.NamePolicy
	}
	closed := cmp.Or(c.Registration, "closed") == "closed"
	for _, provider := range append([]string{c.GitHub, c.Weixin, c.Solana}, c.OIDC...) {
		closed = closed && !strings.Contains(provider, "registration=open") && !strings.Contains(provider, "registration=approval")
	}
	if closed {
		return policyFirstCome
	}
	return policyProved
}

func (c Config) checkNames() error {
	var errs []error
	if p := c.namePolicy(); p != policyFirstCome && p != policyProved {
		errs = append(errs, errors.New("name-policy: must be first-come or proved"))
	}
	for _, address := range c.ClaimDirectories {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Host == "" {
			errs = append(errs, fmt.Errorf("claim-directories: %q must be the https address of an ACME directory", address))
		}
	}
	if _, err := authdns.ParseResolvers(c.DNSResolvers); err != nil {
		errs = append(errs, fmt.Errorf("dns-resolvers: %w", err))
	}
	if _, err := prefixes(c.DNSAllowCIDRs); err != nil {
		errs = append(errs, fmt.Errorf("dns-allow-cidrs: %w", err))
	}
	return errors.Join(errs...)
}

// nameRecords is what looks TXT records up.
func (c Config) nameRecords(o Options) (*authdns.Client, error) {
	resolvers, err := authdns.ParseResolvers(c.DNSResolvers)
	if err != nil {
		return nil, fmt.Errorf("dns-resolvers: %w", err)
	}
	if len(resolvers) == 0 {
		resolvers = authdns.SystemResolvers("/etc/resolv.conf")
	}
	allow, err := prefixes(c.DNSAllowCIDRs)
	if err != nil {
		return nil, fmt.Errorf("dns-allow-cidrs: %w", err)
	}
	return authdns.New(authdns.Options{Resolvers: resolvers, AllowCIDRs: allow, Port: o.DNSPort}), nil
}

// nameCertificates gives names what hangs on them; certs is made later.
type nameCertificates struct{ a *App }

// Judge implements names.Certificates.
func (n nameCertificates) Judge(ctx context.Context, userID int64, domain string) error {
	return n.a.areas.certs.Judge(ctx, userID, domain)
}

// StillValid implements names.Certificates.
func (n nameCertificates) StillValid(ctx context.Context, userID int64, name string) ([]names.ValidCertificate, error) {
	return n.a.areas.certs.StillValid(ctx, userID, name)
}

// nameAttempts gives names the orders under way; issuance is made later.
type nameAttempts struct{ a *App }

// Withdraw implements names.Attempts.
func (n nameAttempts) Withdraw(ctx context.Context, tx *sqldb.Tx, domain string) error {
	return n.a.areas.issuance.Withdraw(ctx, tx, domain)
}

// Past implements names.Attempts.
func (n nameAttempts) Past(ctx context.Context, each func(names.Success)) error {
	return n.a.areas.issuance.Past(ctx, each)
}

// reservedNames are this server's own: administrators alone order certificates
// for them. Later settings with a host of this server join here.
func (c Config) reservedNames() names.Reserved {
	return names.Reserve([]string{c.PublicURL()}, nil)
}
