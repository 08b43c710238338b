package acmetest_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"certharbor.dev/certharbor/internal/acmetest"
)

// responder answers HTTP-01 challenges as a host under validation would.
type responder struct {
	mu      sync.Mutex
	answers map[string]string
}

func (r *responder) Present(_ context.Context, c acme.Challenge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[c.HTTP01ResourcePath()] = c.KeyAuthorization
	return nil
}

func (r *responder) CleanUp(_ context.Context, c acme.Challenge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.answers, c.HTTP01ResourcePath())
	return nil
}

func (r *responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	answer, ok := r.answers[req.URL.Path]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	_, _ = fmt.Fprint(w, answer)
}

// respond serves a responder on the ACME server's own HTTP-01 listener.
func respond(t *testing.T, ca *acmetest.Server) *responder {
	t.Helper()
	r := &responder{answers: map[string]string{}}
	web := &http.Server{Handler: r}
	go func() { _ = web.Serve(ca.HTTPListener) }()
	t.Cleanup(func() { _ = web.Close() })
	return r
}

// obtain registers a new account and gets a certificate for names over HTTP-01.
func obtain(t *testing.T, ca *acmetest.Server, solver *responder, names ...string) ([]*x509.Certificate, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca.CABundlePEM)) {
		t.Fatal("CABundlePEM holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	client := acmez.Client{
		Client: &acme.Client{
			Directory:    ca.DirectoryURL,
			HTTPClient:   &http.Client{Transport: transport},
			PollInterval: 20 * time.Millisecond,
		},
		ChallengeSolvers: map[string]acmez.Solver{acme.ChallengeTypeHTTP01: solver},
	}
	account, err := client.NewAccount(ctx, acme.Account{PrivateKey: newKey(t), TermsOfServiceAgreed: true})
	if err != nil {
		return nil, fmt.Errorf("new account: %w", err)
	}
	chains, err := client.ObtainCertificateForSANs(ctx, account, newKey(t), names)
	if err != nil {
		return nil, fmt.Errorf("obtain: %w", err)
	}
	return parseChain(t, chains[0].ChainPEM), nil
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func parseChain(t *testing.T, chain []byte) []*x509.Certificate {
	t.Helper()
	var out []*x509.Certificate
	for block, rest := pem.Decode(bytes.TrimSpace(chain)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, cert)
	}
	return out
}

func TestObtain(t *testing.T) {
	t.Parallel()
	cases := map[string]acmetest.Options{
		"well behaved": {Lifetime: 90 * time.Second},
		"bad nonces":   {NonceRejectPercent: 30, Lifetime: 90 * time.Second},
		"retry after":  {RetryAfterAuthz: time.Second, RetryAfterOrder: time.Second, Lifetime: 90 * time.Second},
		"long chain":   {ChainLength: 3, Lifetime: 90 * time.Second},
		"always valid": {AlwaysValid: true, Lifetime: 90 * time.Second},
		"authz reuse":  {AuthzReusePercent: 100, Lifetime: 90 * time.Second},
	}
	for name, opts := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := acmetest.Start(t, opts)
			chain, err := obtain(t, ca, respond(t, ca), "a.example.test", "b.example.test")
			if err != nil {
				t.Fatal(err)
			}
			leaf := chain[0]
			if lifetime := leaf.NotAfter.Sub(leaf.NotBefore); lifetime > 90*time.Second || lifetime < 80*time.Second {
				t.Errorf("lifetime %v, want about 90s", lifetime)
			}
			if want := max(1, opts.ChainLength); len(chain)-1 != want {
				t.Errorf("%d issuers, want %d", len(chain)-1, want)
			}
			roots, issuers := x509.NewCertPool(), x509.NewCertPool()
			roots.AppendCertsFromPEM([]byte(ca.IssuerRootPEM(t)))
			for _, c := range chain[1:] {
				issuers.AddCert(c)
			}
			for _, host := range []string{"a.example.test", "b.example.test"} {
				if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: issuers}); err != nil {
					t.Errorf("verify %s: %v", host, err)
				}
			}
		})
	}
}

func TestFailValidation(t *testing.T) {
	t.Parallel()
	ca := acmetest.Start(t, acmetest.Options{Blocklist: []string{"blocked.example.test"}})
	solver := respond(t, ca)
	ca.FailValidation(t, "broken.example.test")
	if _, err := obtain(t, ca, solver, "fine.example.test", "broken.example.test"); err == nil ||
		!strings.Contains(err.Error(), "broken.example.test") {
		t.Errorf("broken name: %v, want an error that names it", err)
	}
	if _, err := obtain(t, ca, solver, "blocked.example.test"); err == nil ||
		!strings.Contains(err.Error(), "rejectedIdentifier") {
		t.Errorf("blocked name: %v, want rejectedIdentifier", err)
	}
	ca.AllowValidation(t, "broken.example.test")
	if _, err := obtain(t, ca, solver, "broken.example.test"); err != nil {
		t.Errorf("after AllowValidation: %v", err)
	}
	ca.SetA(t, "elsewhere.example.test", "127.0.0.9")
	if _, err := obtain(t, ca, solver, "elsewhere.example.test"); err == nil {
		t.Error("a name that resolves to another address was validated")
	}
}
