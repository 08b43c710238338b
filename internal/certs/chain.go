package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	maxChainText    = 64 << 10 // bytes of PEM
	maxCertificates = 10
)

// Chain is a leaf certificate and the issuers it came with, each signed by the
// next one.
type Chain struct {
	Leaf    *x509.Certificate
	Issuers []*x509.Certificate // may be empty
}

// ParseChain reads certificates in PEM and puts them in order: the leaf, then its
// issuers, whatever order they came in, repetitions dropped. It refuses private
// keys and other PEM blocks, damaged blocks, more than 10 certificates or 64 KiB,
// two leaves, and certificates that do not belong to the leaf's chain. The error's
// text is public and quotes nothing.
func ParseChain(text []byte) (Chain, error) {
	if len(text) > maxChainText {
		return Chain{}, fmt.Errorf("is larger than %d KiB", maxChainText>>10)
	}
	all, err := parseCertificates(text, maxCertificates)
	if err != nil {
		return Chain{}, err
	}
	leaf, err := findLeaf(all)
	if err != nil {
		return Chain{}, err
	}
	chain := Chain{Leaf: all[leaf]}
	rest := slices.Delete(all, leaf, leaf+1)
	for current := chain.Leaf; len(rest) > 0; {
		next := slices.IndexFunc(rest, func(issuer *x509.Certificate) bool { return issued(issuer, current) })
		if next < 0 {
			return Chain{}, errors.New("holds a certificate that does not belong to the chain of the first one")
		}
		current = rest[next]
		chain.Issuers = append(chain.Issuers, current)
		rest = slices.Delete(rest, next, next+1)
	}
	return chain, nil
}

// storedChain reads a chain that [Chain.FullPEM] wrote, in the order it was
// stored in: a CA may send more than the line of issuers that [ParseChain]
// accepts from people (RFC 8555 section 9.1), and it may be larger than what is
// accepted now.
func storedChain(text string) (Chain, error) {
	all, err := parseCertificates([]byte(text), math.MaxInt)
	if err != nil {
		return Chain{}, fmt.Errorf("stored chain: %w", err)
	}
	return Chain{Leaf: all[0], Issuers: all[1:]}, nil
}

func parseCertificates(text []byte, most int) ([]*x509.Certificate, error) {
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		return nil, errors.New("holds a private key; only certificates belong here")
	}
	var all []*x509.Certificate
	blocks := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if blocks++; block.Type != "CERTIFICATE" && block.Type != "X509 CERTIFICATE" {
			return nil, errors.New("holds a PEM block that is not a certificate")
		}
		if blocks > most {
			return nil, fmt.Errorf("holds more than %d certificates", most)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read", blocks)
		}
		if !slices.ContainsFunc(all, certificate.Equal) {
			all = append(all, certificate)
		}
	}
	// pem.Decode steps over what it cannot read; a certificate must not be lost so.
	if bytes.Count(text, []byte("-----BEGIN")) != blocks {
		return nil, errors.New("holds a damaged PEM block")
	}
	if len(all) == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	return all, nil
}

// findLeaf gives the one certificate that is not a CA's, or, where all are, the
// first: what `openssl req -x509` makes calls itself a CA.
func findLeaf(all []*x509.Certificate) (int, error) {
	leaf := -1
	for i, certificate := range all {
		if certificate.IsCA {
			continue
		}
		if leaf >= 0 {
			return 0, errors.New("holds more than one leaf certificate")
		}
		leaf = i
	}
	return max(leaf, 0), nil
}

func issued(issuer, certificate *x509.Certificate) bool {
	return bytes.Equal(certificate.RawIssuer, issuer.RawSubject) && certificate.CheckSignatureFrom(issuer) == nil
}

// LeafPEM gives the leaf.
func (c Chain) LeafPEM() []byte { return certificatesPEM(c.Leaf) }

// IssuersPEM gives the issuers, nothing where there are none.
func (c Chain) IssuersPEM() []byte { return certificatesPEM(c.Issuers...) }

// FullPEM gives the leaf, then its issuers: the member `cert` of a record.
func (c Chain) FullPEM() []byte { return append(c.LeafPEM(), c.IssuersPEM()...) }

func certificatesPEM(certificates ...*x509.Certificate) []byte {
	var out []byte
	for _, certificate := range certificates {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})...)
	}
	return out
}

// JoinPEM puts the cert_pem and chain_pem of a request into one text for
// [ParseChain].
func JoinPEM(certificate, issuers string) []byte {
	return []byte(strings.TrimSpace(certificate) + "\n" + strings.TrimSpace(issuers) + "\n")
}
