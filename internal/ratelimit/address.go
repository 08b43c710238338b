package ratelimit

import "net/netip"

// AddressKey is the part of a client address that limits count by: an IPv4
// address whole, an IPv6 address by its /64, which is what one customer has.
// What is not an address comes back as "unknown".
func AddressKey(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return prefix.String()
}
