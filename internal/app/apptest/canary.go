package apptest

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
)

// Canary listens on every address of this machine where nobody may connect.
type Canary struct {
	Port     string
	connects atomic.Int64
}

func NewCanary(t *testing.T) *Canary {
	t.Helper()
	c := &Canary{}
	v4, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, c.Port, _ = net.SplitHostPort(v4.Addr().String())
	listeners := []net.Listener{v4}
	if v6, err := net.Listen("tcp6", "[::]:"+c.Port); err == nil { // a machine without IPv6 has nothing to connect to
		listeners = append(listeners, v6)
	}
	for _, l := range listeners {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				c.connects.Add(1)
				_ = conn.Close()
			}
		}()
	}
	t.Cleanup(func() {
		if n := c.connects.Load(); n != 0 {
			t.Errorf("%d connects where none may be", n)
		}
	})
	return c
}

// InsideNames are names that lead inside. The first call for a rebound name
// answers a public address, later ones do not.
var InsideNames = map[string][]string{
	"metadata.example": {"169.254.169.254"},
	"private.example":  {"10.0.0.1", "192.168.0.1", "127.0.0.1"},
	"six.example":      {"::1"},
	"mapped.example":   {"::ffff:127.0.0.1"},
	"nat64.example":    {"64:ff9b::7f00:1"},
	"rebound.example":  {"127.0.0.1", "::1"},
}

func EvilLookup(_ context.Context, host string) ([]netip.Addr, error) {
	texts, ok := InsideNames[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var addresses []netip.Addr
	for _, text := range texts {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	return addresses, nil
}

// InsideHosts are hosts of URLs that lead inside, names included.
func InsideHosts() []string {
	hosts := []string{
		"127.0.0.1", "127.1.2.3", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
		"0", "0.0.0.0", "localhost", "LOCALHOST.", "a.localhost", "127.0.0.1.",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]",
		"[2002:7f00:1::]", "[::1%25lo]", "[fe80::1%25lo]", "[fd00:ec2::254]",
		"169.254.169.254", "100.100.100.200", "10.0.0.1", "172.16.0.1", "192.168.0.1", "224.0.0.1", "255.255.255.255",
		"%31%32%37.0.0.1", "①②⑦.0.0.1", "127。0。0。1",
	}
	for name := range InsideNames {
		hosts = append(hosts, name)
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	return hosts
}
