package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Guard decides which addresses may be called. It refuses everything that
// IANA lists as special (loopback, private, link-local, shared, multicast,
// documentation, mapped, translated and tunnelled ranges) unless an exception
// names it. It is safe for concurrent use.
type Guard struct{ rules *ssrf.Guardian }

// NewGuard makes a Guard with allow as exceptions from the refused ranges.
// ports, when there are any, are the only ones that may be called.
func NewGuard(allow []netip.Prefix, ports ...uint16) *Guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4() {
			v4 = append(v4, p.Masked())
		} else {
			v6 = append(v6, p.Masked())
		}
	}
	options := []ssrf.Option{
		ssrf.WithNetworks("tcp4", "tcp6", "udp4", "udp6"), // DNS speaks both
		ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...), ssrf.WithDeniedV4Prefixes(hostNetworks()...),
	}
	if len(ports) > 0 {
		options = append(options, ssrf.WithPorts(ports...))
	} else {
		options = append(options, ssrf.WithAnyPort())
	}
	return &Guard{rules: ssrf.New(options...)}
}

// hostNetworks are ranges that look public and belong to the machine's own
// cloud: what answers there answers this machine alone. Those of others are in
// the special ranges (169.254.169.254, 100.100.100.200, 192.0.0.192, fd00:ec2::254).
func hostNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("168.63.129.16/32"), // Azure: "What is IP address 168.63.129.16?", its documentation of virtual networks
		netip.MustParsePrefix("161.26.0.0/16"),    // IBM Cloud: "IBM Cloud IP ranges", its service network
		netip.MustParsePrefix("166.8.0.0/14"),     // IBM Cloud: the same, cloud service endpoints
	}
}

// CheckAddr gives an error wrapping ErrRefusedTarget when addr may not be
// called.
func (g *Guard) CheckAddr(addr netip.Addr) error {
	// An IPv4 address in IPv6 clothes is dialled as IPv4, so it is judged so.
	if err := g.rules.SafeAddr(addr.Unmap()); err != nil {
		return fmt.Errorf("%w: %w", ErrRefusedTarget, err)
	}
	return nil
}

// CheckHost judges what can be known about a host (as url.URL.Hostname gives
// it) before any name is resolved: address literals, localhost, and names that
// some resolvers take for an address (2130706433, 0x7f.1, 017700000001). A nil
// error promises nothing about the addresses a name resolves to; those are
// judged when dialled.
func (g *Guard) CheckHost(host string) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(name); err == nil {
		return g.CheckAddr(addr)
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return g.CheckAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	if name == "" || looksNumeric(name) {
		return fmt.Errorf("%w: host %q", ErrRefusedTarget, host)
	}
	return nil
}

// looksNumeric follows the URL standard's "ends in a number" test: no name of
// the public DNS has such a last label, but inet_aton reads it as an address.
func looksNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// Dialer gives a dialer that asks the guard about every address just before it
// connects, for protocols other than HTTP.
func (g *Guard) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: g.control}
}

// control is the net.Dialer hook: it sees every address just before connect.
func (g *Guard) control(network, address string, conn syscall.RawConn) error {
	if err := g.rules.Safe(network, address, conn); err != nil {
		return fmt.Errorf("%w: %w", ErrRefusedTarget, err)
	}
	return nil
}
