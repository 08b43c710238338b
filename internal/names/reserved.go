package names

import (
	"net"
	"net/url"
	"strings"
)

// Reserved are the names that only administrators order: hosts of this server,
// and zones that it serves itself.
type Reserved struct {
	hosts []string // each alone, and the wildcards that cover it
	zones []string // each with all that is below
}

// Reserve makes the list of hosts (names, or addresses with or without scheme
// and port) and zones. What is not a name is passed over: the settings are
// checked elsewhere.
func Reserve(hosts, zones []string) Reserved {
	var r Reserved
	for _, host := range hosts {
		if name, problem := Normal(hostOf(host)); problem == "" {
			r.hosts = append(r.hosts, name)
		}
	}
	for _, zone := range zones {
		if name, problem := Normal(zone); problem == "" {
			r.zones = append(r.zones, name)
		}
	}
	return r
}

func hostOf(address string) string {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil {
			return ""
		}
		return u.Hostname()
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// Has tells whether the name is reserved, or a wildcard that covers one that is.
func (r Reserved) Has(name string) bool {
	for _, host := range r.hosts {
		if name == host {
			return true
		}
		if upper, ok := cutWildcard(name); ok {
			if parent(host) == upper {
				return true
			}
		}
	}
	for _, zone := range r.zones {
		if within(name, zone) || name == wildcardAbove(zone) {
			return true
		}
	}
	return false
}

// wildcardAbove is the wildcard that covers the name.
func wildcardAbove(name string) string {
	return "*." + parent(name)
}

func cutWildcard(name string) (rest string, ok bool) { return strings.CutPrefix(name, "*.") }

// parent is the name without its first label; an address has none.
func parent(name string) string {
	if isIP(name) {
		return ""
	}
	_, rest, _ := strings.Cut(name, ".")
	return rest
}
