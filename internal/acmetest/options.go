package acmetest

import (
	"fmt"
	"strconv"
	"time"
)

// Options say how the ACME server behaves. The zero value is a well-behaved, fast server: no
// validation sleep, no rejected nonces, no reused authorizations, certificates of 90 days.
type Options struct {
	// HTTPPort is the port of 127.0.0.1 that HTTP-01 validation (RFC 8555 section 8.3) connects to.
	// 0: Start opens a listener and hands it out as Server.HTTPListener.
	HTTPPort int
	// TLSPort is the same for TLS-ALPN-01 (RFC 8737). 0: a port nobody listens on.
	TLSPort int
	// NonceRejectPercent of good nonces are refused with badNonce.
	NonceRejectPercent int
	// AuthzReusePercent of orders get an already valid authorization of the account for a name.
	AuthzReusePercent int
	// AlwaysValid accepts every challenge without looking.
	AlwaysValid bool
	// MaxValidationSleep lets every validation wait a random time below this, in whole seconds.
	MaxValidationSleep time.Duration
	// Lifetime of the certificates of the profile "default"; 0: 90 days. Whole seconds.
	Lifetime time.Duration
	// Profiles are further profiles (draft-ietf-acme-profiles) with their certificate lifetimes. An
	// order that names none then gets any of them: Pebble chooses at random.
	Profiles map[string]time.Duration
	// RetryAfterAuthz and RetryAfterOrder are sent as Retry-After with an authorization that is
	// processing and with an order; 0 sends none. Whole seconds.
	RetryAfterAuthz, RetryAfterOrder time.Duration
	// EABKeys maps key ids to base64url HMAC keys (32 bytes or more); not empty: newAccount needs
	// an external account binding (RFC 8555 section 7.3.4).
	EABKeys map[string]string
	// Blocklist names are refused with rejectedIdentifier when ordered.
	Blocklist []string
	// ChainLength is the number of intermediates; 0: one.
	ChainLength int
	// Strict is Pebble's strict mode.
	Strict bool
}

// wireOptions is the first line that tools/acmeserver reads.
type wireOptions struct {
	HTTPPort        int               `json:"http_port"`
	TLSPort         int               `json:"tls_port"`
	Profiles        map[string]uint64 `json:"profiles,omitempty"`
	RetryAfterAuthz int               `json:"retry_after_authz"`
	RetryAfterOrder int               `json:"retry_after_order"`
	EABKeys         map[string]string `json:"eab_keys,omitempty"`
	Blocklist       []string          `json:"blocklist,omitempty"`
	Strict          bool              `json:"strict"`
}

func (o Options) wire() wireOptions {
	profiles := map[string]uint64{}
	for name, lifetime := range o.Profiles {
		profiles[name] = uint64(seconds(lifetime))
	}
	if o.Lifetime > 0 || len(profiles) > 0 {
		profiles["default"] = uint64(seconds(o.Lifetime))
	}
	return wireOptions{
		HTTPPort: o.HTTPPort, TLSPort: o.TLSPort, Profiles: profiles,
		RetryAfterAuthz: seconds(o.RetryAfterAuthz), RetryAfterOrder: seconds(o.RetryAfterOrder),
		EABKeys: o.EABKeys, Blocklist: o.Blocklist, Strict: o.Strict,
	}
}

// environment returns Pebble's own switches.
func (o Options) environment() []string {
	env := []string{
		"PEBBLE_WFE_NONCEREJECT=" + strconv.Itoa(o.NonceRejectPercent),
		"PEBBLE_AUTHZREUSE=" + strconv.Itoa(o.AuthzReusePercent),
		"PEBBLE_WFE_ORDERS_PER_PAGE=15",
	}
	if o.MaxValidationSleep > 0 {
		env = append(env, fmt.Sprintf("PEBBLE_VA_SLEEPTIME=%d", seconds(o.MaxValidationSleep)))
	} else {
		env = append(env, "PEBBLE_VA_NOSLEEP=1")
	}
	if o.AlwaysValid {
		env = append(env, "PEBBLE_VA_ALWAYS_VALID=1")
	}
	if o.ChainLength > 0 {
		env = append(env, "PEBBLE_CHAIN_LENGTH="+strconv.Itoa(o.ChainLength))
	}
	return env
}

// seconds rounds up to whole seconds, Pebble's only unit.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
