package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"certharbor.dev/certharbor/internal/outbound"
)

// Directory names a certificate authority.
type Directory struct {
	// URL of the directory (RFC 8555 section 7.1.1), https.
	URL string
	// RootCAs, PEM, are the only roots its TLS certificate may chain to; empty
	// means the system's.
	RootCAs string
}

// Options set up clients.
type Options struct {
	// AllowCIDRs are special ranges a directory may live in. They count for the
	// directory's own host and port alone, not for other URLs it gives.
	AllowCIDRs []netip.Prefix
	// RequestTimeout bounds one HTTP exchange, 0 means 20 s. A step, with its
	// directory, nonce and repetitions for bad nonces, takes at most three times it.
	RequestTimeout time.Duration
	// UserAgent is put before the library's own (RFC 8555 section 6.1), "" means
	// "certharbor".
	UserAgent string
	// Now is the clock for dates in answers, nil means time.Now.
	Now func() time.Time
	// Lookup resolves names, nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Fault is outbound.Options.Fault, for tests.
	Fault func(*http.Request) outbound.Fault
}

// Client performs steps at one authority. It is safe for concurrent use, and
// keeps connections, nonces and the directory for speed only.
type Client struct {
	url       string
	origin    string
	userAgent string
	stepTime  time.Duration
	now       func() time.Time
	home      *http.Client // for the directory's origin
	elsewhere *http.Client // for all others

	lock   chan struct{} // guards loaded; a channel, so that waiting ends with the step
	loaded *loaded
}

const (
	defaultRequestTimeout = 20 * time.Second
	// maxBadNonces bounds the repetitions of one step. A CA that refuses three
	// of ten nonces fails a step once in 170,000.
	maxBadNonces = 10
)

// NewClient makes a client. It connects nowhere. The error is a *Problem of
// class Permanent when the URL is not https or RootCAs holds no certificate.
func NewClient(dir Directory, opts Options) (*Client, error) {
	u, err := checkURL(dir.URL)
	if err != nil {
		return nil, bad(opDirectory, Permanent, err, "the directory URL must be an https URL")
	}
	var roots *x509.CertPool
	if dir.RootCAs != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(dir.RootCAs)) {
			return nil, bad(opDirectory, Permanent, ErrBadCertificate, "the CA bundle holds no certificate in PEM form")
		}
	}
	if opts.RequestTimeout <= 0 {
		opts.RequestTimeout = defaultRequestTimeout
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.UserAgent == "" {
		opts.UserAgent = "certharbor"
	}
	transport := outbound.Options{RootCAs: roots, Timeout: opts.RequestTimeout, Lookup: opts.Lookup, Fault: opts.Fault}
	c := &Client{
		url: dir.URL, origin: origin(u), userAgent: opts.UserAgent,
		stepTime: 3 * opts.RequestTimeout, now: opts.Now,
		elsewhere: outbound.New(transport),
		lock:      make(chan struct{}, 1),
	}
	transport.AllowCIDRs = opts.AllowCIDRs
	c.home = outbound.New(transport)
	return c, nil
}

// Close drops idle connections. Steps under way go on.
func (c *Client) Close() {
	c.home.CloseIdleConnections()
	c.elsewhere.CloseIdleConnections()
}

// do performs one step: fn makes one call of the protocol library, which is
// repeated at once when the CA refuses the nonce (RFC 8555 section 6.5).
func (c *Client) do(ctx context.Context, op string, fn func(context.Context, *acme.Client) error) (*step, error) {
	ctx, cancel := context.WithTimeout(ctx, c.stepTime)
	defer cancel()
	dir, err := c.directory(ctx)
	if err != nil {
		return nil, err
	}
	for range maxBadNonces {
		s := &step{op: op}
		var inner context.Context
		inner, s.cancel = context.WithCancel(context.WithValue(ctx, stepKey{}, s))
		err := fn(inner, dir.protocol)
		s.cancel()
		switch {
		case s.problem != nil:
			return s, s.problem
		case s.badNonce && ctx.Err() == nil:
			continue
		case ctx.Err() != nil:
			return s, failure(op, fmt.Errorf("%s: %w", op, ctx.Err()))
		case !s.answered && err == nil:
			err = errors.New("no request was made")
		}
		if err != nil {
			return s, unreadable(op, err)
		}
		return s, nil
	}
	return nil, bad(op, Retry, ErrBadAnswer, "the CA refused every nonce")
}

// unreadable is the Problem of an answer the library could not decode. The
// library's error quotes the answer, so only a short, clean part is kept.
func unreadable(op string, err error) *Problem {
	return bad(op, Retry, fmt.Errorf("%w: %s", ErrBadAnswer, clean(err.Error(), 200)), "the CA's answer could not be read")
}

// get performs a step that is one plain GET, for resources without signature.
func (c *Client) get(ctx context.Context, op string, target *url.URL) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, nil, failure(op, err)
	}
	req.Header.Set("User-Agent", c.userAgent)
	resp, body, err := c.exchange(req) //nolint:bodyclose // exchange read it to its end and closed it
	if err != nil {
		return nil, nil, failure(op, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fromAnswer(op, resp.StatusCode, resp.Header, body, c.now())
	}
	return resp.Header, body, nil
}
