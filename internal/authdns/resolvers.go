package authdns

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/miekg/dns"
)

// ParseResolvers reads addresses, each with or without a port.
func ParseResolvers(list []string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for _, text := range list {
		if address, err := netip.ParseAddrPort(text); err == nil {
			all = append(all, address)
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not an address such as 192.0.2.53 or 192.0.2.53:53", text)
		}
		all = append(all, netip.AddrPortFrom(addr, dnsPort))
	}
	return all, nil
}

// SystemResolvers are those of a file in the form of resolv.conf(5); none when
// it cannot be read.
func SystemResolvers(file string) []netip.AddrPort {
	config, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(config.Port, 10, 16)
	if err != nil {
		port = dnsPort
	}
	var all []netip.AddrPort
	for _, text := range config.Servers {
		if addr, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.AddrPortFrom(addr, uint16(port)))
		}
	}
	return all
}
