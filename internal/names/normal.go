package names

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

const (
	maxName  = 253 // RFC 1035 2.3.4, in the written form without the last dot
	maxLabel = 63
	maxShown = 80 // how much of a bad entry an error quotes
)

// Normal gives the form in which names are stored and compared: lower case,
// IDNA A-labels, no trailing dot, IP addresses in their shortest form. A
// wildcard may stand as the leftmost label. problem says what is wrong with a
// name that is not accepted; it quotes the name.
func Normal(entry string) (name, problem string) {
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
	if len(entry) > 4*maxName { // IDNA tables are not fed with megabytes
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
		if len(label) > maxLabel {
			return bad("is not a DNS name: a label is longer than %d characters", maxLabel)
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
	if len(ascii) > maxName {
		return bad("is longer than %d characters", maxName)
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
