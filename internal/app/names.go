package app

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"certharbor.dev/certharbor/internal/names"
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
	return errors.Join(errs...)
}

// reservedNames are this server's own: administrators alone order certificates
// for them. Later settings with a host of this server join here.
func (c Config) reservedNames() names.Reserved {
	return names.Reserve([]string{c.PublicURL()}, nil)
}
