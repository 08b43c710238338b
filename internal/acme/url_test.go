package acme_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/outbound"
)

// canary counts connects to a port of loopback that is not the directory's.
func canary(t *testing.T) (address string, connects *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connects = &atomic.Int64{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			_ = conn.Close()
		}
	}()
	return l.Addr().String(), connects
}

// hostileURLs are what a CA could send us to.
func hostileURLs(inside string) []string {
	_, port, _ := net.SplitHostPort(inside)
	return []string{
		"https://" + inside + "/x", "https://localhost:" + port + "/x", "https://[::ffff:7f00:1]:" + port + "/x",
		"https://2130706433:" + port + "/x", "https://rebound.example:" + port + "/x", "https://[::1]:" + port + "/x",
		"https://169.254.169.254/latest/meta-data/", "https://10.0.0.1/x", "https://[fd00::1]/x",
		"http://" + inside + "/x", "http://example.com/x", "ftp://" + inside + "/x", "file:///etc/passwd",
		"//" + inside + "/x", "/relative", "https:///x", "https://user:pass@" + inside + "/x",
		"https://" + inside + "/\"x", "https://" + inside + "/\r\nX: y", "https://" + inside + "/" + strings.Repeat("a", 3000),
	}
}

// Wherever a CA can name a URL, one that leads inside or is none is refused
// without a connect, although loopback is allowed for the directory itself.
func TestURLsOfTheCAThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	inside, connects := canary(t)
	places := map[string]func(ca *hostile.CA, url string){
		"nonce":       func(ca *hostile.CA, url string) { ca.Always(hostile.Directory, with("newNonce", url)) },
		"new account": func(ca *hostile.CA, url string) { ca.Always(hostile.Directory, with("newAccount", url)) },
		"new order":   func(ca *hostile.CA, url string) { ca.Always(hostile.Directory, with("newOrder", url)) },
		"order":       func(ca *hostile.CA, url string) { ca.Always(hostile.NewOrder, hostile.Location(url)) },
		"authorization": func(ca *hostile.CA, url string) {
			ca.Always(hostile.NewOrder, with("authorizations", []string{url}))
		},
		"finalize":    func(ca *hostile.CA, url string) { ca.Always(hostile.Order, with("finalize", url)) },
		"certificate": func(ca *hostile.CA, url string) { ca.Always(hostile.Finalize, with("certificate", url)) },
		"challenge": func(ca *hostile.CA, url string) {
			ca.Always(hostile.Authorization, with("challenges", []any{map[string]any{
				"type": "http-01", "status": "pending", "token": "token_of_the_hostile_CA", "url": url,
			}}))
		},
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, url := range hostileURLs(inside) {
				ca := hostile.Start(t)
				place(ca, url)
				f := newFlow(t, newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{Lookup: evilDNS}), "a.example")
				err := visitAll(t, f)
				if !errors.Is(err, acme.ErrBadURL) && !errors.Is(err, outbound.ErrRefusedTarget) && !errors.Is(err, acme.ErrBadAnswer) {
					t.Errorf("%.60q: %v, want a refusal", url, err)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := connects.Load(); n != 0 {
			t.Errorf("the canary saw %d connects", n)
		}
	})
}

func with(name string, value any) hostile.Answer { return hostile.With(map[string]any{name: value}) }

func evilDNS(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func TestDirectoryItself(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "http://127.0.0.1/dir", "ftp://example.com", "https://", "https://a:b@example.com/dir", "dir"} {
		if _, err := acme.NewClient(acme.Directory{URL: url}, acme.Options{}); !errors.Is(err, acme.ErrBadURL) {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := acme.NewClient(acme.Directory{URL: "https://ca.example/dir", RootCAs: "no PEM"}, acme.Options{}); !errors.Is(err, acme.ErrBadCertificate) {
		t.Errorf("roots: %v", err)
	}
	ca := hostile.Start(t)
	// Without an exception loopback is refused for the directory too.
	client, err := acme.NewClient(acme.Directory{URL: ca.DirectoryURL, RootCAs: ca.CABundlePEM}, acme.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Meta(t.Context()); !errors.Is(err, outbound.ErrRefusedTarget) || acme.AsProblem(err).Class != acme.Permanent {
		t.Errorf("no exception: %v", err)
	}
	// A root that did not sign is not trusted.
	other := hostile.Start(t)
	client = newClient(t, ca.DirectoryURL, other.IssuerRootPEM, acme.Options{})
	if _, err := client.Meta(t.Context()); err == nil || err.Error() != "directory: the TLS handshake failed" {
		t.Errorf("other root: %v", err)
	}
	if n := ca.Requests(hostile.Directory); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// A directory that hangs delays nobody at another authority.
func TestAHangingDirectoryBlocksNobodyElse(t *testing.T) {
	t.Parallel()
	stuck, blocked := hostileFlow(t, acme.Options{})
	stuck.Always(hostile.Directory, hostile.Hang())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- blocked.register(ctx) }()
	awaitRequest(t, stuck, hostile.Directory)
	_, f := hostileFlow(t, acme.Options{})
	if err := visitAll(t, f); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("blocked: %v", err)
	}
}

func awaitRequest(t *testing.T, ca *hostile.CA, step hostile.Step) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for ca.Requests(step) == 0 {
		if time.Now().After(end) {
			t.Fatal("the request did not arrive")
		}
		time.Sleep(time.Millisecond)
	}
}
