package acme_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
)

// flow is one order taken step by step, as the issuance will do it.
type flow struct {
	client  *acme.Client
	account acme.Account
	key     *ecdsa.PrivateKey // of the certificate
	csr     []byte
	names   []string
	present func(acme.HTTP01) // serves the challenge
	order   acme.Order
}

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func newClient(t testing.TB, directoryURL, roots string, opts acme.Options) *acme.Client {
	t.Helper()
	opts.AllowCIDRs = loopback()
	if opts.RequestTimeout == 0 {
		opts.RequestTimeout = 10 * time.Second
	}
	client, err := acme.NewClient(acme.Directory{URL: directoryURL, RootCAs: roots}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func newFlow(t testing.TB, client *acme.Client, names ...string) *flow {
	t.Helper()
	accountKey, err := acme.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &flow{client: client, account: acme.Account{Key: accountKey}, names: names, present: func(acme.HTTP01) {}}
	f.newKey(t)
	return f
}

// newKey makes key and CSR of a new certificate.
func (f *flow) newKey(t testing.TB) {
	t.Helper()
	var err error
	if f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if f.csr, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: f.names}, f.key); err != nil {
		t.Fatal(err)
	}
}

// hostileFlow is a flow at a CA that misbehaves when told.
func hostileFlow(t testing.TB, opts acme.Options) (*hostile.CA, *flow) {
	t.Helper()
	ca := hostile.Start(t)
	return ca, newFlow(t, newClient(t, ca.DirectoryURL, ca.CABundlePEM, opts), "a.example", "b.example")
}

func (f *flow) register(ctx context.Context) error {
	account, err := f.client.Register(ctx, acme.Registration{Key: f.account.Key, Contacts: []string{"ops@example.com"}, TermsAgreed: true})
	if err == nil {
		f.account = account
	}
	return err
}

// saw keeps the last good view of the order, as a row would.
func (f *flow) saw(order acme.Order, err error) error {
	if err == nil {
		f.order = order
	}
	return err
}

func (f *flow) placeOrder(ctx context.Context) error {
	return f.saw(f.client.NewOrder(ctx, f.account, acme.OrderRequest{Names: f.names}))
}

func (f *flow) look(ctx context.Context) error {
	return f.saw(f.client.Order(ctx, f.account, f.order.URL))
}

func (f *flow) authorize(ctx context.Context) error {
	authorizations, err := f.client.Authorizations(ctx, f.account, f.order)
	if err != nil {
		return err
	}
	for _, a := range authorizations {
		if p := a.Problem(); p != nil {
			return p
		}
		if a.Status == acme.StatusValid {
			continue
		}
		challenge, err := f.account.HTTP01(a)
		if err != nil {
			return err
		}
		f.present(challenge)
		if err := f.client.Accept(ctx, f.account, challenge); err != nil {
			return err
		}
	}
	return nil
}

// await looks at the order until it has one of the states or failed.
func (f *flow) await(ctx context.Context, states ...string) error {
	return acme.Waiter{}.Wait(ctx, f.order.RetryAfter, func(ctx context.Context) (bool, time.Duration, error) {
		if err := f.look(ctx); err != nil {
			return false, 0, err
		}
		if f.order.Status == acme.StatusInvalid {
			if err := f.authorize(ctx); err != nil {
				return false, 0, err
			}
			return false, 0, fmt.Errorf("order invalid: %w", f.order.Problem)
		}
		if slices.Contains(states, f.order.Status) {
			return true, 0, nil
		}
		return false, f.order.RetryAfter, nil
	})
}

func (f *flow) finalize(ctx context.Context) error {
	return f.saw(f.client.Finalize(ctx, f.account, f.order, f.csr))
}

func (f *flow) download(ctx context.Context) (acme.Chain, error) {
	return f.client.Certificate(ctx, f.account, f.order, f.wanted())
}

func (f *flow) wanted() acme.Wanted {
	return acme.Wanted{Key: f.key.Public(), Names: f.names}
}

// obtain goes from a registered account to the certificate.
func (f *flow) obtain(ctx context.Context) (acme.Chain, error) {
	steps := []func(context.Context) error{f.placeOrder, f.authorize}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return acme.Chain{}, err
		}
	}
	if f.order.Status != acme.StatusReady {
		if err := f.await(ctx, acme.StatusReady, acme.StatusValid); err != nil {
			return acme.Chain{}, err
		}
	}
	if err := f.finalize(ctx); err != nil {
		return acme.Chain{}, err
	}
	if f.order.Status != acme.StatusValid {
		if err := f.await(ctx, acme.StatusValid); err != nil {
			return acme.Chain{}, err
		}
	}
	return f.download(ctx)
}

// run registers and obtains.
func (f *flow) run(ctx context.Context) (acme.Chain, error) {
	if err := f.register(ctx); err != nil {
		return acme.Chain{}, err
	}
	return f.obtain(ctx)
}
