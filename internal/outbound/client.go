package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Options set up a client. The zero value calls public addresses on any port
// with the system's roots.
type Options struct {
	// AllowCIDRs are ranges that may be called although they are special.
	AllowCIDRs []netip.Prefix
	// AllowPorts are the only ports that may be called; none means any.
	AllowPorts []uint16
	// RootCAs verify the other side; nil means the system's.
	RootCAs *x509.CertPool
	// Timeout bounds the whole call, reading the body included; 0 means 10 s.
	Timeout time.Duration
	// Lookup resolves names; nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Fault, for tests, chooses what happens to a request.
	Fault func(*http.Request) Fault
}

const (
	defaultTimeout  = 10 * time.Second
	maxDialTimeout  = 5 * time.Second
	maxHeaderBytes  = 64 << 10
	idleTimeout     = 90 * time.Second
	idleConnections = 16
)

// New gives the client to make calls with. Its errors wrap the values of this
// package where they apply. A redirect is returned as the answer it is. Bodies
// are not decompressed; read them with ReadLimited.
func New(opts Options) *http.Client {
	guard := NewGuard(opts.AllowCIDRs, opts.AllowPorts...)
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	step := min(opts.Timeout, maxDialTimeout)
	dial := dialer{
		// Control runs for every address that is tried, after resolution.
		Dialer: &net.Dialer{Timeout: step, KeepAlive: 30 * time.Second, Control: guard.control},
		lookup: opts.Lookup,
	}
	var transport http.RoundTripper = &http.Transport{
		Proxy:                  nil, // a proxy would dial for us, past the guard
		DialContext:            dial.dial,
		TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    step,
		ResponseHeaderTimeout:  opts.Timeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTimeout,
	}
	if opts.Fault != nil {
		transport = faulty{next: transport, choose: opts.Fault}
	}
	return &http.Client{
		Transport:     checked{next: transport, guard: guard},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       opts.Timeout,
	}
}

// checked refuses before anything is resolved what can be refused by its URL.
type checked struct {
	next  http.RoundTripper
	guard *Guard
}

func (c checked) RoundTrip(req *http.Request) (*http.Response, error) {
	err := c.guard.CheckHost(req.URL.Hostname())
	if req.URL.Scheme != "https" && req.URL.Scheme != "http" {
		err = fmt.Errorf("%w: scheme %q", ErrRefusedTarget, req.URL.Scheme)
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	return c.next.RoundTrip(req)
}

func (c checked) CloseIdleConnections() { closeIdle(c.next) }

// closeIdle keeps http.Client.CloseIdleConnections working through wrappers.
func closeIdle(rt http.RoundTripper) {
	if closer, ok := rt.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// dialer is a net.Dialer whose resolution can be replaced.
type dialer struct {
	*net.Dialer
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	if _, err := netip.ParseAddr(host); d.lookup == nil || err == nil {
		return d.DialContext(ctx, network, address)
	}
	addrs, err := d.lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	var failures []error
	for _, addr := range addrs {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return nil, errors.Join(failures...)
}
