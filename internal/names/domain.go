package names

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Domain gives the registrable domain of a normalised name: the public suffix
// (https://publicsuffix.org, the private section included) and one label more.
// What has none is its own domain and is claimed exactly: a public suffix, a
// single label, an IP address. Below a top-level domain that the list does not
// know, the last two labels count as registrable.
func Domain(name string) (domain string, exact bool) {
	base := base(name)
	if isIP(base) || !strings.Contains(base, ".") {
		return base, true
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(base)
	if err != nil { // it is a public suffix itself
		return base, true
	}
	return domain, false
}

// path lists the names at which a claim decides about the name, the nearest
// first, the registrable domain last.
func path(name string) []string {
	at := base(name)
	domain, exact := Domain(name)
	if exact {
		return []string{at}
	}
	var all []string
	for {
		all = append(all, at)
		if len(at) <= len(domain) {
			return all
		}
		_, at, _ = strings.Cut(at, ".")
	}
}

// base is the name without its wildcard.
func base(name string) string { return strings.TrimPrefix(name, "*.") }

func isWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

func isIP(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// listed tells whether the name stands below a suffix of the public list: only
// there has a TXT record one owner for all the world.
func listed(name string) bool {
	at := base(name)
	if isIP(at) || !strings.Contains(at, ".") {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(at)
	return icann || strings.Contains(suffix, ".")
}

// Listed is listed: no inner name of a network is one.
func Listed(name string) bool { return listed(name) }

// covers tells whether a claim on the upper name holds for the name.
func covers(upper, name string) bool {
	return slices.Contains(path(name), upper)
}

// Below tells whether name is the upper one, stands below it, or is a wildcard
// there.
func Below(upper, name string) bool { return within(name, upper) }

// within tells whether name is upper or stands below it, whatever suffixes are
// between them.
func within(name, upper string) bool {
	at := base(name)
	return at == upper || strings.HasSuffix(at, "."+upper)
}
