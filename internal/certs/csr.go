package certs

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
)

// maxCommonName is the upper bound of a common name (RFC 5280 appendix A,
// ub-common-name).
const maxCommonName = 64

// Subject holds the optional subject fields of a certificate request. Public CAs
// ignore them.
type Subject struct {
	Organization       string `json:"organization"`
	OrganizationalUnit string `json:"organizational_unit"`
	Country            string `json:"country" doc:"Two letters, or empty."`
	State              string `json:"state"`
	Locality           string `json:"locality"`
}

func (s Subject) name() pkix.Name {
	one := func(value string) []string {
		if value == "" {
			return nil
		}
		return []string{value}
	}
	return pkix.Name{
		Organization: one(s.Organization), OrganizationalUnit: one(s.OrganizationalUnit),
		Country: one(s.Country), Province: one(s.State), Locality: one(s.Locality),
	}
}

// CreateCSR makes a signing request (RFC 2986) in DER: every name as subject
// alternative name, the primary one also as common name when it is a DNS name of
// at most 64 characters.
func CreateCSR(key crypto.Signer, names Names, subject Subject) ([]byte, error) {
	template := &x509.CertificateRequest{Subject: subject.name()}
	if len(names.Domain) <= maxCommonName && !isIP(names.Domain) {
		template.Subject.CommonName = names.Domain
	}
	for _, name := range names.All() {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("create signing request: %w", err)
	}
	return der, nil
}

// CSR is a signing request that passed [ParseCSR].
type CSR struct {
	DER       []byte
	Names     Names
	PublicKey crypto.PublicKey
	Algorithm KeyAlgorithm
}

// PEM gives the request in PEM (RFC 7468 section 7).
func (c CSR) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: c.DER})
}

// Extensions that a request may ask for. Everything else is refused rather than
// dropped in silence; an own CA must never copy one it does not know.
var csrExtensions = map[string]bool{
	"2.5.29.14":          true, // subject key identifier
	"2.5.29.15":          true, // key usage
	"2.5.29.17":          true, // subject alternative name
	"2.5.29.19":          true, // basic constraints, unless CA:TRUE
	"2.5.29.37":          true, // extended key usage
	"1.3.6.1.5.5.7.1.24": true, // TLS feature (must staple)
}

// ParseCSR reads and checks a signing request in PEM or DER for `action: csr`:
// its signature and the algorithm of it, the strength of its key, that it asks
// for no CA certificate, and its names. Names are the common name, where there
// is one, and the DNS and IP subject alternative names; others are refused. The
// error is a fault on the field csr_pem.
func ParseCSR(data []byte) (CSR, error) {
	csr, err := parseCSR(data)
	if err != nil {
		return CSR{}, fault.Invalid("csr_pem", "%v", err)
	}
	return csr, nil
}

func parseCSR(data []byte) (CSR, error) {
	der, err := csrBlock(data)
	if err != nil {
		return CSR{}, err
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return CSR{}, errors.New("is not a certificate signing request (PKCS#10)")
	}
	switch request.SignatureAlgorithm {
	case x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA, x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS,
		x509.SHA512WithRSAPSS, x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512, x509.PureEd25519:
	default:
		return CSR{}, errors.New("is signed with an algorithm that is not accepted; use SHA-256 or better")
	}
	algorithm, err := AlgorithmOf(request.PublicKey)
	if err != nil {
		return CSR{}, fmt.Errorf("its key %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return CSR{}, errors.New("its signature is not valid")
	}
	if err := checkCSRExtensions(request); err != nil {
		return CSR{}, err
	}
	names, err := csrNames(request)
	if err != nil {
		return CSR{}, err
	}
	return CSR{DER: request.Raw, Names: names, PublicKey: request.PublicKey, Algorithm: algorithm}, nil
}

func csrBlock(data []byte) ([]byte, error) {
	if len(data) > maxKeyText {
		return nil, fmt.Errorf("is larger than a signing request can be (%d KiB)", maxKeyText>>10)
	}
	if !bytes.Contains(data, []byte("-----BEGIN")) {
		return data, nil
	}
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return nil, errors.New("is not PEM")
	case strings.Contains(block.Type, "PRIVATE KEY"), bytes.Contains(rest, []byte("PRIVATE KEY")):
		return nil, errors.New("holds a private key; send the signing request alone and keep the key")
	case block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
		return nil, errors.New("is not a certificate signing request in PEM")
	case bytes.Contains(rest, []byte("-----BEGIN")):
		return nil, errors.New("holds more than one PEM block")
	}
	return block.Bytes, nil
}

func checkCSRExtensions(request *x509.CertificateRequest) error {
	for _, extension := range request.Extensions {
		if !csrExtensions[extension.Id.String()] {
			return fmt.Errorf("asks for the extension %s, which is not accepted", extension.Id)
		}
		if extension.Id.String() != "2.5.29.19" {
			continue
		}
		var constraints struct {
			IsCA       bool `asn1:"optional"`
			MaxPathLen int  `asn1:"optional,default:-1"`
		}
		if rest, err := asn1.Unmarshal(extension.Value, &constraints); err != nil || len(rest) > 0 || constraints.IsCA {
			return errors.New("asks for a CA certificate")
		}
	}
	return nil
}

func csrNames(request *x509.CertificateRequest) (Names, error) {
	if len(request.EmailAddresses) > 0 || len(request.URIs) > 0 {
		return Names{}, errors.New("holds e-mail addresses or URIs; only DNS names and IP addresses are accepted")
	}
	sans := append([]string{}, request.DNSNames...)
	for _, ip := range request.IPAddresses {
		sans = append(sans, ip.String())
	}
	domain := request.Subject.CommonName
	if domain == "" && len(sans) > 0 {
		domain = sans[0]
	}
	if domain == "" {
		return Names{}, errors.New("holds no name: neither a common name nor subject alternative names")
	}
	names, err := NormalizeNames(domain, sans)
	if err != nil {
		return Names{}, fmt.Errorf("holds a name that is not accepted: %s", fault.As(err).What)
	}
	return names, nil
}
