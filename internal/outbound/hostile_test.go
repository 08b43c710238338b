package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"certharbor.dev/certharbor/internal/outbound"
)

// canary listens on both loopback addresses, on one port, and counts connects.
type canary struct {
	port     string
	connects atomic.Int64
}

func startCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	v4, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, c.port, _ = net.SplitHostPort(v4.Addr().String())
	listeners := []net.Listener{v4}
	if v6, err := net.Listen("tcp6", "[::]:"+c.port); err == nil { // a machine without IPv6 has nothing to connect to
		listeners = append(listeners, v6)
	}
	for _, l := range listeners {
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
		t.Cleanup(func() { _ = l.Close() })
	}
	return c
}

// evilDNS answers every name with an address inside, and reads numeric hosts
// as inet_aton does, which is what some system resolvers do.
func evilDNS(_ context.Context, host string) ([]netip.Addr, error) {
	inside := map[string][]string{
		"metadata.example": {"169.254.169.254"},
		"private.example":  {"10.0.0.1"},
		"six.example":      {"::1"},
		"unique.example":   {"fd00::1"},
		"mapped.example":   {"::ffff:127.0.0.1"},
		"nat64.example":    {"64:ff9b::7f00:1"},
		"several.example":  {"10.0.0.1", "fd00::1", "127.0.0.1"},
	}
	texts, ok := inside[host]
	if !ok {
		texts = []string{"127.0.0.1"}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

// hostileHosts are the targets of threats.md scenario 4 and the SSRF row of
// its section 3, as they stand in a URL.
func hostileHosts() []string {
	return []string{
		"127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST.", "a.localhost",
		"2130706433", "017700000001", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.0x1",
		"0.0.0.0", "0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"100.64.0.1", "169.254.169.254", "192.0.0.8", "168.63.129.16", "[::ffff:168.63.129.16]", "161.26.0.10", "166.9.0.1", "100.100.100.200", "192.0.0.192", "[fd00:ec2::254]", "192.0.2.1", "198.18.0.1", "198.51.100.1",
		"203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
		"[::1]", "[::]", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]",
		"[fe80::1]", "[fe80::1%25lo]", "[fd00::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]",
		"[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001::1]", "[2001:db8::1]", "[100::1]",
		"rebound.example", "metadata.example", "private.example", "six.example", "unique.example",
		"mapped.example", "nat64.example", "several.example", "user:pass@127.0.0.1", "user@rebound.example",
	}
}

func TestHostileTargetsSeeNoConnect(t *testing.T) {
	canary := startCanary(t)
	client := outbound.New(outbound.Options{Lookup: evilDNS})
	hosts := hostileHosts()
	if len(hosts) < 40 {
		t.Fatalf("%d hostile targets, want at least 40", len(hosts))
	}
	for _, scheme := range []string{"http", "https"} {
		for _, host := range hosts {
			target := fmt.Sprintf("%s://%s:%s/", scheme, host, canary.port)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("x"))
			if err != nil {
				t.Fatalf("%s: %v", target, err)
			}
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if !errors.Is(err, outbound.ErrRefusedTarget) {
				t.Errorf("%s: error %v, want a refused target", target, err)
			}
			if got := outbound.Public(err); !strings.Contains(got, "not one this server may call") {
				t.Errorf("%s: public sentence %q", target, got)
			}
		}
	}
	if n := canary.connects.Load(); n != 0 {
		t.Errorf("the canary saw %d connects", n)
	}
}

func TestHostileSchemesAreRefused(t *testing.T) {
	client := outbound.New(outbound.Options{})
	for _, target := range []string{"ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "unix://x/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, outbound.ErrRefusedTarget) {
			t.Errorf("%s: error %v, want a refused target", target, err)
		}
	}
}

// A name that was good when it was first used is judged again at each dial.
func TestReboundNameIsRefused(t *testing.T) {
	canary := startCanary(t)
	good := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	good.Listener = listenOn(t, "127.0.0.2:0")
	good.Start()
	defer good.Close()
	_, port, _ := net.SplitHostPort(good.Listener.Addr().String())

	now := netip.MustParseAddr("127.0.0.2")
	client := outbound.New(outbound.Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, // stands for the public network
		Lookup:     func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{now}, nil },
	})
	if err := get(t, client, "http://hook.example:"+port); err != nil {
		t.Fatalf("before: %v", err)
	}
	now = netip.MustParseAddr("127.0.0.1")
	if err := get(t, client, "http://hook.example:"+canary.port); !errors.Is(err, outbound.ErrRefusedTarget) {
		t.Errorf("after: error %v, want a refused target", err)
	}
	if n := canary.connects.Load(); n != 0 {
		t.Errorf("the canary saw %d connects", n)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	canary := startCanary(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewUnstartedServer(http.RedirectHandler("http://127.0.0.2:"+canary.port+"/", status))
		server.Listener = listenOn(t, "127.0.0.2:0")
		server.Start()
		// Even a target that could be dialled is not followed to.
		client := outbound.New(outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%d: %v", status, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("status %d, want %d as it came", resp.StatusCode, status)
		}
		server.Close()
	}
	if n := canary.connects.Load(); n != 0 {
		t.Errorf("the canary saw %d connects", n)
	}
}

func listenOn(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
