package acme_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest"
)

// pebbleFlow is a flow at a real ACME server that really validates.
func pebbleFlow(t testing.TB, opts acmetest.Options, names ...string) (*acmetest.Server, *flow) {
	t.Helper()
	ca := acmetest.Start(t, opts)
	f := newFlow(t, newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{UserAgent: "certharbor-test"}), names...)
	var answers sync.Map
	f.present = func(c acme.HTTP01) { answers.Store("/.well-known/acme-challenge/"+c.Token, c.KeyAuthorization) }
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := answers.Load(r.URL.Path); ok {
			_, _ = fmt.Fprint(w, answer)
			return
		}
		http.NotFound(w, r)
	})}
	go func() { _ = web.Serve(ca.HTTPListener) }()
	t.Cleanup(func() { _ = web.Close() })
	return ca, f
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestPebbleIssues(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]acmetest.Options{
		"well behaved": {},
		"bad nonces":   {NonceRejectPercent: 30},
		"retry after":  {RetryAfterAuthz: time.Second, RetryAfterOrder: time.Second},
		"long chain":   {ChainLength: 3},
		"reuse":        {AuthzReusePercent: 100},
		"strict":       {Strict: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca, f := pebbleFlow(t, opts, "a.example.test", "b.example.test")
			ctx := deadline(t)
			for range 2 { // the second order may reuse authorizations
				f.newKey(t)
				chain, err := f.run(ctx)
				if err != nil {
					t.Fatal(err)
				}
				verify(t, chain, ca.IssuerRootPEM(t), f.names)
			}
		})
	}
}

func verify(t *testing.T, chain acme.Chain, root string, names []string) {
	t.Helper()
	roots, issuers := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(root))
	issuers.AppendCertsFromPEM([]byte(chain.IssuersPEM))
	for _, name := range names {
		if _, err := chain.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: issuers}); err != nil {
			t.Errorf("verify %s: %v", name, err)
		}
	}
}

// Every step is made twice, the second time by a client that knows nothing.
func TestPebbleStepsCanBeRepeatedByAFreshProcess(t *testing.T) {
	t.Parallel()
	ca, f := pebbleFlow(t, acmetest.Options{NonceRejectPercent: 10}, "a.example.test")
	ctx := deadline(t)
	twice := func(name string, step func(context.Context) error) {
		t.Helper()
		for i := range 2 {
			f.client = newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{})
			if err := step(ctx); err != nil {
				t.Fatalf("%s, time %d: %v", name, i+1, err)
			}
		}
	}
	twice("register", f.register)
	if err := f.placeOrder(ctx); err != nil {
		t.Fatal(err)
	}
	authorizations, err := f.client.Authorizations(ctx, f.account, f.order)
	if err != nil || len(authorizations) != 1 {
		t.Fatalf("%d authorizations, %v", len(authorizations), err)
	}
	challenge, err := f.account.HTTP01(authorizations[0])
	if err != nil {
		t.Fatal(err)
	}
	f.present(challenge)
	accept := func(ctx context.Context) error { return f.client.Accept(ctx, f.account, challenge) }
	twice("accept", accept)
	if err := f.await(ctx, acme.StatusReady); err != nil {
		t.Fatal(err)
	}
	twice("accept when valid", accept)
	twice("finalize", f.finalize)
	if err := f.await(ctx, acme.StatusValid); err != nil {
		t.Fatal(err)
	}
	twice("finalize when valid", f.finalize)
	var serials []string
	twice("download", func(ctx context.Context) error {
		chain, err := f.download(ctx)
		if err == nil {
			serials = append(serials, chain.Leaf.SerialNumber.String())
		}
		return err
	})
	if serials[0] != serials[1] {
		t.Error("two certificates of one order")
	}
	chain, err := f.download(ctx)
	if err != nil {
		t.Fatal(err)
	}
	window, err := f.client.RenewalInfo(ctx, chain.Leaf)
	if err != nil || !window.End.After(window.Start) || window.RetryAfter != 6*time.Hour {
		t.Errorf("renewal window %+v, %v", window, err)
	}
	twice("revoke", func(ctx context.Context) error { return f.client.Revoke(ctx, f.account, chain.Leaf, 4) })
	twice("deactivate", func(ctx context.Context) error { return f.client.Deactivate(ctx, f.account) })
	if err := f.placeOrder(ctx); err == nil {
		t.Error("a deactivated account could order")
	}
}

func TestPebbleProblems(t *testing.T) {
	t.Parallel()
	ca, f := pebbleFlow(t, acmetest.Options{
		Blocklist: []string{"blocked.example.test"}, Profiles: map[string]time.Duration{"short": 2 * time.Hour},
	}, "fine.example.test", "broken.example.test")
	ca.FailValidation(t, "broken.example.test")
	ctx := deadline(t)
	if err := f.register(ctx); err != nil {
		t.Fatal(err)
	}

	_, err := f.obtain(ctx)
	if p := acme.AsProblem(err); p == nil || p.Class != acme.Permanent || !strings.Contains(p.Error(), "broken.example.test") ||
		!strings.HasPrefix(p.Error(), "urn:ietf:params:acme:error:") || strings.ContainsAny(p.Error(), "\r\n") {
		t.Errorf("failing validation: %v", err)
	}

	f.names = []string{"blocked.example.test"}
	err = f.placeOrder(ctx)
	if p := acme.AsProblem(err); p == nil || p.Class != acme.Permanent || p.Type != "urn:ietf:params:acme:error:rejectedIdentifier" ||
		!strings.Contains(p.Error(), "blocked.example.test") {
		t.Errorf("blocked name: %v", err)
	}

	f.names = []string{"fine.example.test"}
	if err := f.placeOrder(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Order(ctx, f.account, f.order.URL+"unknown"); acme.AsProblem(err) == nil || acme.AsProblem(err).Class != acme.OrderGone {
		t.Errorf("unknown order: %v", err)
	}
	if _, err := f.client.Finalize(ctx, f.account, f.order, f.csr); err != nil {
		t.Errorf("finalize while pending: %v, want the order as it stands", err)
	}

	stranger := newFlow(t, f.client)
	stranger.names = f.names
	stranger.account.URL = f.account.URL + "unknown"
	if err := stranger.placeOrder(ctx); acme.AsProblem(err) == nil || acme.AsProblem(err).Class != acme.AccountGone {
		t.Errorf("unknown account: %v", err)
	}

	_, err = f.client.NewOrder(ctx, f.account, acme.OrderRequest{Names: f.names, Profile: "nothing"})
	if !errors.Is(err, acme.ErrUnsupported) {
		t.Errorf("unknown profile: %v", err)
	}
	if f.order, err = f.client.NewOrder(ctx, f.account, acme.OrderRequest{Names: f.names, Profile: "short"}); err != nil {
		t.Errorf("profile: %v", err)
	}
	ca.Stop()
	if err := f.placeOrder(ctx); acme.AsProblem(err) == nil || acme.AsProblem(err).Class != acme.Retry || err.Error() != "new order: the connection failed" {
		t.Errorf("CA away: %v", err)
	}
}

func TestPebbleExternalAccountBinding(t *testing.T) {
	t.Parallel()
	const hmac = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	ca := acmetest.Start(t, acmetest.Options{EABKeys: map[string]string{"kid-1": hmac}})
	client := newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{})
	ctx := deadline(t)
	meta, err := client.Meta(ctx)
	if err != nil || !meta.ExternalAccountRequired || !meta.RenewalInfo {
		t.Errorf("meta %+v, %v", meta, err)
	}
	f := newFlow(t, client)
	if err := f.register(ctx); acme.AsProblem(err) == nil || acme.AsProblem(err).Type != "urn:ietf:params:acme:error:externalAccountRequired" {
		t.Errorf("without binding: %v", err)
	}
	register := func(eab acme.EAB) (acme.Account, error) {
		return client.Register(ctx, acme.Registration{Key: f.account.Key, TermsAgreed: true, EAB: &eab})
	}
	for _, wrong := range []acme.EAB{{KeyID: "kid-1", HMACKey: "AAAA"}, {KeyID: "kid-2", HMACKey: hmac}, {KeyID: "kid-1", HMACKey: "?"}, {HMACKey: hmac}} {
		if _, err := register(wrong); acme.AsProblem(err) == nil || acme.AsProblem(err).Class == acme.Retry || strings.Contains(err.Error(), hmac) {
			t.Errorf("wrong binding %s: %v", wrong, err)
		}
	}
	first, err := register(acme.EAB{KeyID: "kid-1", HMACKey: hmac + "=="})
	if err != nil {
		t.Fatal(err)
	}
	second, err := register(acme.EAB{KeyID: "kid-1", HMACKey: hmac})
	if err != nil || first.URL != second.URL {
		t.Errorf("again: %s and %s, %v", first, second, err)
	}
}
