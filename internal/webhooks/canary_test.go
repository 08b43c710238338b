package webhooks

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
)

// canary listens where nobody may connect, and counts who does.
type canary struct {
	port     string
	connects atomic.Int64
}

func newCanary(t testing.TB) *canary {
	t.Helper()
	c := &canary{}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, c.port, _ = net.SplitHostPort(l.Addr().String())
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
	return c
}

// outbound has no exceptions and a resolver that answers with a public
// address first and, once rebound, with addresses of this machine.
func (c *canary) outbound(rebound *atomic.Bool) outbound.Options {
	return outbound.Options{
		Timeout: 2 * time.Second,
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			if !rebound.Load() {
				return []netip.Addr{netip.MustParseAddr("203.0.113.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:127.0.0.1")}, nil
		},
	}
}
