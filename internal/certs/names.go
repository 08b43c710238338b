package certs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/names"
)

// MaxNames is how many different names one certificate may have.
const MaxNames = 100

// Names are the normalised names of a certificate: lower case, IDNA A-labels,
// no trailing dot, IP addresses in their shortest form.
type Names struct {
	Domain string   // the primary name, domain_name of the record
	SANs   []string // the further names as they were listed, without repetitions; may hold Domain
}

// NormalizeNames checks and normalises domain_name and sans of a request
// (decisions.md section 4). The error is a fault that names the bad entry, such
// as `sans[3]`. IP addresses pass here; [Names.FirstIP] tells those who must
// refuse them.
func NormalizeNames(domain string, sans []string) (Names, error) {
	primary, problem := normalizeName(domain)
	if problem != "" {
		return Names{}, fault.Invalid("domain_name", "%s", problem)
	}
	names := Names{Domain: primary, SANs: make([]string, 0, min(len(sans), MaxNames))}
	seen := map[string]bool{}
	for i, entry := range sans {
		name, problem := normalizeName(entry)
		if problem != "" {
			return Names{}, fault.Invalid(fmt.Sprintf("sans[%d]", i), "%s", problem)
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		names.SANs = append(names.SANs, name)
		if len(names.All()) > MaxNames {
			return Names{}, fault.Invalid(fmt.Sprintf("sans[%d]", i),
				"a certificate has at most %d different names, domain_name included", MaxNames)
		}
	}
	return names, nil
}

// All lists every name once, the primary one first.
func (n Names) All() []string {
	all := make([]string, 0, 1+len(n.SANs))
	all = append(all, n.Domain)
	for _, name := range n.SANs {
		if name != n.Domain {
			all = append(all, name)
		}
	}
	return all
}

// FirstIP gives the first name that is an IP address, or "".
func (n Names) FirstIP() string { return n.first(isIP) }

// FirstWildcard gives the first wildcard name, or "". Wildcards need the dns-01
// challenge at public CAs (RFC 8555 section 7.1.3).
func (n Names) FirstWildcard() string { return n.first(isWildcard) }

func (n Names) first(is func(string) bool) string {
	all := n.All()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return ""
}

// SetKey gives one text for each exact set of names, whatever their order: what
// the limit of orders per name set counts by.
func (n Names) SetKey() string {
	all := n.All()
	slices.Sort(all)
	return strings.Join(all, ",")
}

func isIP(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

// normalizeName gives the normal form of one name, or what is wrong with it.
func normalizeName(entry string) (name, problem string) { return names.Normal(entry) }
