package authdns

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	maxSteps     = 20 // from a name up to its zone
	maxServers   = 20
	maxAddresses = 8 // of one server
)

// server is a name server and where it is.
type server struct{ addresses []netip.Addr }

var (
	errNoZone      = errors.New("the zone of the name was not found")
	errTooMany     = errors.New("the zone has more name servers than are asked")
	errNoServers   = errors.New("the zone has no name servers")
	errNoAddresses = errors.New("a name server has no address")
)

// zone finds the zone that the name is in.
func (c *Client) zone(ctx context.Context, name string) (string, error) {
	at := name
	for range maxSteps {
		answer, err := c.resolve(ctx, at, dns.TypeSOA)
		if err != nil {
			return "", err
		}
		for _, record := range slices.Concat(answer.Answer, answer.Ns) {
			soa, ok := record.(*dns.SOA)
			if ok && dns.IsSubDomain(soa.Hdr.Name, at) {
				return strings.ToLower(soa.Hdr.Name), nil
			}
		}
		next, end := dns.NextLabel(at, 0)
		if end {
			break
		}
		at = at[next:]
	}
	return "", errNoZone
}

// servers lists the name servers of the zone with all of their addresses.
func (c *Client) servers(ctx context.Context, zone string) ([]server, error) {
	answer, err := c.resolve(ctx, zone, dns.TypeNS)
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, record := range answer.Answer {
		if ns, ok := record.(*dns.NS); ok && strings.EqualFold(ns.Hdr.Name, zone) {
			hosts = append(hosts, strings.ToLower(ns.Ns))
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	if len(hosts) == 0 {
		return nil, errNoServers
	}
	if len(hosts) > maxServers {
		return nil, errTooMany
	}
	all := make([]server, 0, len(hosts))
	for _, host := range hosts {
		s, err := c.server(ctx, host)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (c *Client) server(ctx context.Context, host string) (server, error) {
	var s server
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		answer, err := c.resolve(ctx, host, kind)
		if err != nil {
			return s, err
		}
		for _, record := range answer.Answer {
			var addr netip.Addr
			switch r := record.(type) {
			case *dns.A:
				addr, _ = netip.AddrFromSlice(r.A)
			case *dns.AAAA:
				addr, _ = netip.AddrFromSlice(r.AAAA)
			}
			if addr = addr.Unmap(); addr.IsValid() && !slices.Contains(s.addresses, addr) {
				s.addresses = append(s.addresses, addr)
			}
		}
	}
	if len(s.addresses) == 0 {
		return s, errNoAddresses
	}
	if len(s.addresses) > maxAddresses {
		return s, errTooMany
	}
	return s, nil
}
