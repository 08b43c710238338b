package certs

import (
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// Leaf is what a record shows of its leaf certificate.
type Leaf struct {
	SerialNumber      string // hexadecimal, lower case, an even number of digits
	FingerprintSHA256 string // of the DER, hexadecimal, lower case
	NotBefore         int64  // Unix milliseconds
	NotAfter          int64  // Unix milliseconds
	Issuer            string // distinguished name in the form of RFC 4514
	SelfSigned        bool
}

// Describe gives what a record shows of the chain's leaf.
func (c Chain) Describe() Leaf {
	fingerprint := sha256.Sum256(c.Leaf.Raw)
	return Leaf{
		SerialNumber:      hex.EncodeToString(c.Leaf.SerialNumber.Bytes()),
		FingerprintSHA256: hex.EncodeToString(fingerprint[:]),
		NotBefore:         c.Leaf.NotBefore.UnixMilli(),
		NotAfter:          c.Leaf.NotAfter.UnixMilli(),
		Issuer:            printable(c.Leaf.Issuer.String()),
		SelfSigned:        c.Leaf.CheckSignature(c.Leaf.SignatureAlgorithm, c.Leaf.RawTBSCertificate, c.Leaf.Signature) == nil,
	}
}

// printable is what of a foreign text goes into a column and onto a screen.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > maxIssuer {
		text = string(runes[:maxIssuer]) + "…"
	}
	return text
}

// maxIssuer bounds what is kept of an issuer's name, in characters.
const maxIssuer = 1000

// CheckLeaf requires that the leaf certifies this public key, covers every one
// of these names and has a strong key and a sensible lifetime. A CA's answer is
// stored, and an import or a worker's result accepted, only after it. The error's
// text is public.
func (c Chain) CheckLeaf(public crypto.PublicKey, names []string) error {
	if !SameKey(c.Leaf.PublicKey, public) {
		return errors.New("the certificate does not match the private key or signing request")
	}
	if err := CheckPublicKey(c.Leaf.PublicKey); err != nil {
		return fmt.Errorf("the certificate's key %w", err)
	}
	if c.Leaf.SerialNumber.Sign() <= 0 {
		return errors.New("the certificate's serial number is not positive")
	}
	if !c.Leaf.NotBefore.Before(c.Leaf.NotAfter) {
		return errors.New("the certificate ends before it begins")
	}
	covered := make(map[string]bool, len(c.Leaf.DNSNames)+len(c.Leaf.IPAddresses))
	for _, name := range c.names() {
		covered[name] = true
	}
	for _, name := range names {
		if covered[name] {
			continue
		}
		_, parent, dotted := strings.Cut(name, ".")
		if dotted && !isIP(name) && covered["*."+parent] {
			continue
		}
		return fmt.Errorf("the certificate does not cover the name %q", name)
	}
	return nil
}

// LeafNames gives the normalised names of the leaf, for an import that lists
// none: the subject alternative names, the primary one being the common name if
// it is among them, otherwise the first. Old certificates with a common name
// alone are refused. The error's text is public.
func (c Chain) LeafNames() (Names, error) {
	sans := c.names()
	if len(sans) == 0 {
		return Names{}, errors.New("the certificate has no subject alternative names")
	}
	domain := sans[0]
	for _, name := range sans {
		if strings.EqualFold(name, c.Leaf.Subject.CommonName) {
			domain = name
		}
	}
	names, err := NormalizeNames(domain, sans)
	if err != nil {
		return Names{}, errors.New("the certificate holds a name that is not accepted")
	}
	return names, nil
}

func (c Chain) names() []string {
	names := make([]string, 0, len(c.Leaf.DNSNames)+len(c.Leaf.IPAddresses))
	for _, name := range c.Leaf.DNSNames {
		names = append(names, strings.ToLower(name))
	}
	for _, ip := range c.Leaf.IPAddresses {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			names = append(names, addr.Unmap().String())
		}
	}
	return names
}
