package acme

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// maxChain bounds the certificates of one answer.
const maxChain = 10

// Chain is an issued certificate with its issuers.
type Chain struct {
	Leaf *x509.Certificate
	// Issuers are in the order the CA sent them, the leaf's own first.
	Issuers []*x509.Certificate
	// LeafPEM and IssuersPEM are the same, encoded anew; IssuersPEM may be "".
	LeafPEM, IssuersPEM string
}

// Wanted is what a certificate must be for to be accepted.
type Wanted struct {
	// Key is the public key of the CSR.
	Key crypto.PublicKey
	// Names must all be in the certificate, wildcards literally. More names
	// are no error, since some CAs add "www.".
	Names []string
}

// Certificate downloads the certificate of a valid order (RFC 8555 section
// 7.4.2). Alternate chains are ignored. A certificate for another key, without
// one of the names, or out of date gives a Permanent error wrapping
// ErrBadCertificate: it must not be stored.
func (c *Client) Certificate(ctx context.Context, account Account, order Order, want Wanted) (Chain, error) {
	if order.CertificateURL == "" {
		return Chain{}, bad(opCertificate, Permanent, ErrBadAnswer, "the order has no certificate")
	}
	var got []acme.Certificate
	_, err := c.do(ctx, opCertificate, func(ctx context.Context, protocol *acme.Client) (err error) {
		got, err = protocol.GetCertificateChain(ctx, account.wire(), order.CertificateURL)
		return err
	})
	if err != nil {
		return Chain{}, err
	}
	if len(got) == 0 {
		return Chain{}, bad(opCertificate, Retry, ErrBadAnswer, "the CA gave no certificate")
	}
	chain, err := parseChain(got[0].ChainPEM)
	if err != nil {
		return Chain{}, bad(opCertificate, Retry, err, "the CA's answer is not a certificate chain")
	}
	if err := chain.check(want, c.now()); err != nil {
		return Chain{}, bad(opCertificate, Permanent, err, "the CA issued a certificate that was not ordered ("+strings.TrimPrefix(err.Error(), ErrBadCertificate.Error()+": ")+")")
	}
	return chain, nil
}

// parseChain reads a PEM chain (RFC 8555 section 9.1) strictly: certificates
// only, complete, at most maxChain.
func parseChain(data []byte) (Chain, error) {
	var chain Chain
	rest := bytes.TrimSpace(data)
	for n := 0; len(rest) > 0; n++ {
		if n == maxChain {
			return Chain{}, fmt.Errorf("%w: more than %d certificates", ErrBadAnswer, maxChain)
		}
		if !bytes.HasPrefix(rest, []byte("-----BEGIN CERTIFICATE-----")) {
			return Chain{}, fmt.Errorf("%w: something else than certificates", ErrBadAnswer)
		}
		block, after := pem.Decode(rest)
		// Decode skips what it cannot read; that must not pass as a chain.
		if block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			return Chain{}, fmt.Errorf("%w: incomplete PEM", ErrBadAnswer)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return Chain{}, fmt.Errorf("%w: %w", ErrBadAnswer, err)
		}
		encoded := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
		if n == 0 {
			chain.Leaf, chain.LeafPEM = cert, encoded
		} else {
			chain.Issuers = append(chain.Issuers, cert)
			chain.IssuersPEM += encoded
		}
		rest = bytes.TrimSpace(after)
	}
	if chain.Leaf == nil {
		return Chain{}, fmt.Errorf("%w: empty", ErrBadAnswer)
	}
	return chain, nil
}

// check compares the leaf with what was ordered.
func (chain Chain) check(want Wanted, now time.Time) error {
	key, ok := want.Key.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !key.Equal(chain.Leaf.PublicKey) {
		return fmt.Errorf("%w: another key", ErrBadCertificate)
	}
	for _, name := range want.Names {
		if !names(chain.Leaf, name) {
			return fmt.Errorf("%w: without %s", ErrBadCertificate, clean(name, 253))
		}
	}
	if !chain.Leaf.NotAfter.After(now) || !chain.Leaf.NotAfter.After(chain.Leaf.NotBefore) {
		return fmt.Errorf("%w: not valid any more", ErrBadCertificate)
	}
	if len(chain.Issuers) > 0 && !slices.ContainsFunc(chain.Issuers, func(issuer *x509.Certificate) bool {
		return chain.Leaf.CheckSignatureFrom(issuer) == nil
	}) {
		return fmt.Errorf("%w: not signed by the issuers beside it", ErrBadCertificate)
	}
	return nil
}

func names(leaf *x509.Certificate, name string) bool {
	if addr, err := netip.ParseAddr(name); err == nil {
		for _, ip := range leaf.IPAddresses {
			if got, ok := netip.AddrFromSlice(ip); ok && got.Unmap() == addr.Unmap() {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(leaf.DNSNames, func(got string) bool { return strings.EqualFold(got, name) })
}
