package webhooks

import (
	"encoding/json"
	"math"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// The types of a Scope.
const (
	ScopeAll    = "all"
	ScopeCert   = "cert_id"
	ScopeDomain = "domain"
)

// Scope says which certificates a webhook is about (api.md "Scope forms").
type Scope struct {
	Type   string `json:"type" enum:"all,cert_id,domain"`
	CertID int64  `json:"cert_id,omitempty"`
	Domain string `json:"domain,omitempty" doc:"Lower case, with A-labels."`
}

const scopeWarning = `scope could not be understood, so the webhook covers all certificates; ` +
	`send {"type":"all"}, {"type":"cert_id","cert_id":1} or {"type":"domain","domain":"example.com"}`

// ParseScope reads the decoded JSON of a scope. Absent and null are the
// default, all certificates. What cannot be parsed is all certificates too,
// with a warning (decisions.md 8.6). A string that holds the JSON of a scope
// is read as that scope.
func ParseScope(value any) (scope Scope, warning string) {
	if value == nil {
		return Scope{Type: ScopeAll}, ""
	}
	if text, ok := value.(string); ok {
		var inner map[string]any
		if json.Unmarshal([]byte(text), &inner) == nil {
			value = inner
		}
	}
	members, _ := value.(map[string]any)
	switch members["type"] {
	case ScopeAll:
		return Scope{Type: ScopeAll}, ""
	case ScopeCert:
		if id, ok := positiveInteger(members["cert_id"]); ok {
			return Scope{Type: ScopeCert, CertID: id}, ""
		}
	case ScopeDomain:
		if text, ok := members["domain"].(string); ok {
			if domain, ok := normalDomain(text); ok {
				return Scope{Type: ScopeDomain, Domain: domain}, ""
			}
		}
	}
	return Scope{Type: ScopeAll}, scopeWarning
}

// positiveInteger takes what encoding/json makes of a number; ids beyond 2^53
// would have lost digits already.
func positiveInteger(value any) (int64, bool) {
	number, ok := value.(float64)
	if !ok || number < 1 || number >= 1<<53 || number != math.Trunc(number) {
		return 0, false
	}
	return int64(number), true
}

// normalDomain brings a name into the form that certificates carry.
func normalDomain(text string) (string, bool) {
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.String(), true
	}
	rest, wildcard := strings.CutPrefix(text, "*.")
	name, err := idna.Lookup.ToASCII(rest)
	if err != nil || name == "" || len(name) > 253 {
		return "", false
	}
	if wildcard {
		name = "*." + name
	}
	return name, true
}

// Covers reports whether the event is of a certificate in the scope. A domain
// is compared with each whole name of the certificate: *.example.com covers
// the certificate that carries this very name.
func (s Scope) Covers(e Event) bool {
	switch s.Type {
	case ScopeCert:
		return s.CertID == e.CertID
	case ScopeDomain:
		if strings.EqualFold(s.Domain, e.DomainName) {
			return true
		}
		for _, name := range e.Names {
			if strings.EqualFold(s.Domain, name) {
				return true
			}
		}
		return false
	}
	return true
}
