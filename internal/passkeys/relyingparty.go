package passkeys

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"

	"certharbor.dev/certharbor/internal/fault"
)

// displayName is how browsers name the service when they ask for a passkey.
const displayName = "CertHarbor"

// relyingParty is whom passkeys are for (Web Authentication Level 2, section 4):
// an authenticator uses a passkey for its id alone, and a browser lets pages of
// its origin alone ask for it.
type relyingParty struct {
	id     string // a host name
	origin string // scheme, host and port
}

// relyingPartyOf derives the relying party from the public address of the server,
// for example https://certs.example.org. The fault says why there cannot be one.
func relyingPartyOf(baseURL string) (relyingParty, *fault.Error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return relyingParty{}, fault.Conflict("Passkeys need the public address of this server; set base-url to https://<name>.")
	}
	host := strings.ToLower(u.Hostname())
	if address, err := netip.ParseAddr(host); err == nil {
		if !address.IsLoopback() {
			return relyingParty{}, fault.Conflict("Passkeys need a host name, browsers take no IP address; set base-url to https://<name>.")
		}
		host = "localhost" // the one name that means the same machine to every browser
	}
	if u.Scheme != "https" && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return relyingParty{}, fault.Conflict("Passkeys need https; set base-url to https://<name>.")
	}
	if protocol.ValidateRPID(host) != nil {
		return relyingParty{}, fault.Conflict("Passkeys need a domain name; set base-url to https://<name>.")
	}
	authority := host
	if port := u.Port(); port != "" && (u.Scheme != "https" || port != "443") && (u.Scheme != "http" || port != "80") {
		authority = net.JoinHostPort(host, port)
	}
	return relyingParty{id: host, origin: u.Scheme + "://" + authority}, nil
}
