package certs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"certharbor.dev/certharbor/internal/fault"
)

// MaxNames is how many different names one certificate may have.
const MaxNames = 100

const (
	maxNameLength  = 253 // RFC 1035 2.3.4, in the written form without the last dot
	maxLabelLength = 63
	maxShown       = 80 // how much of a bad entry an error quotes
)

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
func normalizeName(entry string) (name, problem string) {
	bad := func(format string, args ...any) (string, string) {
		shown := entry
		if len(shown) > maxShown {
			shown = shown[:maxShown] + "…"
		}
		return "", fmt.Sprintf("%q ", shown) + fmt.Sprintf(format, args...)
	}
	if entry == "" {
		return "", "is empty; give a DNS name such as www.example.com"
	}
	if len(entry) > 4*maxNameLength { // IDNA tables are not fed with megabytes
		return bad("is longer than a DNS name can be")
	}
	if addr, err := netip.ParseAddr(entry); err == nil {
		if addr = addr.Unmap(); addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() {
			return bad("is not the address of one host")
		}
		return addr.String(), ""
	}
	rest, wildcard := strings.CutPrefix(entry, "*.")
	if strings.Contains(rest, "*") {
		return bad("has a wildcard elsewhere than as the whole leftmost label, as in *.example.com")
	}
	ascii, err := idna.Lookup.ToASCII(rest)
	if again, err2 := idna.Lookup.ToASCII(ascii); err != nil || err2 != nil || again != ascii {
		// IDNA takes broken UTF-8 once, but not what it makes of it.
		return bad("is not a DNS name: letters, digits, hyphens and dots only, as in www.example.com")
	}
	ascii = strings.TrimSuffix(ascii, ".")
	labels := strings.Split(ascii, ".")
	for _, label := range labels {
		if label == "" {
			return bad("is not a DNS name: there is nothing between two dots, or before the first")
		}
		if len(label) > maxLabelLength {
			return bad("is not a DNS name: a label is longer than %d characters", maxLabelLength)
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return bad("is neither a DNS name nor an IP address: its last label is a number")
	}
	if wildcard {
		if len(labels) < 2 {
			return bad("covers a whole top-level domain; at least two labels must follow the *")
		}
		ascii = "*." + ascii
	}
	if len(ascii) > maxNameLength {
		return bad("is longer than %d characters", maxNameLength)
	}
	return ascii, ""
}

// isNumber tells whether a label looks like a part of an IPv4 address, so that
// 1.2.3.999 and 0x7f.1 are not taken for DNS names.
func isNumber(label string) bool {
	digits, hexadecimal := strings.CutPrefix(label, "0x")
	alphabet := "0123456789"
	if hexadecimal {
		alphabet += "abcdef"
	}
	return strings.Trim(digits, alphabet) == ""
}
