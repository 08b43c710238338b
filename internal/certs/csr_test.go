package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

func TestCreateAndParseCSR(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60) + ".example.com"
	for name, test := range map[string]struct {
		domain, commonName string
		sans               []string
	}{
		"one":       {"example.com", "example.com", nil},
		"several":   {"example.com", "example.com", []string{"*.example.com", "example.com", "www.example.com"}},
		"too long":  {long, "", []string{"example.com"}},
		"addresses": {"10.0.0.1", "", []string{"2001:db8::1", "example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names, err := NormalizeNames(test.domain, test.sans)
			if err != nil {
				t.Fatal(err)
			}
			key := mustKey(t, AlgorithmECDSAP384)
			der, err := CreateCSR(key, names, Subject{Organization: "Ünit Test", Country: "DE"})
			if err != nil {
				t.Fatal(err)
			}
			request, err := x509.ParseCertificateRequest(der)
			if err != nil || request.Subject.CommonName != test.commonName || request.Subject.Organization[0] != "Ünit Test" {
				t.Errorf("subject %v, %v", request.Subject, err)
			}
			csr, err := ParseCSR(toPEM("CERTIFICATE REQUEST", der))
			if err != nil {
				t.Fatal(err)
			}
			if csr.Names.SetKey() != names.SetKey() || csr.Algorithm != AlgorithmECDSAP384 || !SameKey(csr.PublicKey, key.Public()) {
				t.Errorf("ParseCSR = %+v", csr)
			}
			if again, err := ParseCSR(csr.PEM()); err != nil || again.Names.Domain != csr.Names.Domain {
				t.Errorf("PEM: %v", err)
			}
			run(t, "openssl", "req", "-verify", "-noout", "-in", writeFile(t, csr.PEM()))
		})
	}
}

func TestParseCSRFromOpenSSL(t *testing.T) {
	t.Parallel()
	key := writeFile(t, KeyPEM(must(MarshalKey(mustKey(t, AlgorithmRSA2048)))(t)))
	text := run(t, "openssl", "req", "-new", "-key", key, "-subj", "/CN=Example.com/O=Test",
		"-addext", "subjectAltName=DNS:www.EXAMPLE.com,IP:10.0.0.1", "-addext", "keyUsage=digitalSignature",
		"-addext", "extendedKeyUsage=serverAuth", "-addext", "basicConstraints=CA:FALSE")
	csr, err := ParseCSR([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"example.com", "www.example.com", "10.0.0.1"}; !slices.Equal(csr.Names.All(), want) {
		t.Errorf("names %v", csr.Names.All())
	}
	if csr.Algorithm != AlgorithmRSA2048 {
		t.Errorf("algorithm %s", csr.Algorithm)
	}
}

// must turns a call's results into a value inside an expression.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func makeCSR(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestParseCSRRefuses(t *testing.T) {
	t.Parallel()
	key := mustKey(t, AlgorithmECDSA)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	named := func() *x509.CertificateRequest { return &x509.CertificateRequest{DNSNames: []string{"example.com"}} }
	withExtension := func(oid asn1.ObjectIdentifier, value []byte) []byte {
		template := named()
		template.ExtraExtensions = []pkix.Extension{{Id: oid, Value: value}}
		return makeCSR(t, template, key)
	}
	withURI := named()
	withURI.URIs = []*url.URL{{Scheme: "https", Host: "example.com"}}
	withMail := named()
	withMail.EmailAddresses = []string{"a@example.com"}
	withSHA1 := named()
	withSHA1.SignatureAlgorithm = x509.SHA1WithRSA
	good := makeCSR(t, named(), key)
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	keyPEM := KeyPEM(must(MarshalKey(key))(t))
	goodPEM := toPEM("CERTIFICATE REQUEST", good)

	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"empty":          {nil, "not a certificate signing request"},
		"text":           {[]byte("hello"), "not a certificate signing request"},
		"cut":            {good[:len(good)-3], "not a certificate signing request"},
		"forged":         {forged, "signature"},
		"P-224":          {makeCSR(t, named(), p224), "P-256"},
		"RSA 1024":       {makeCSR(t, named(), small), "1024"},
		"SHA-1":          {makeCSR(t, withSHA1, mustKey(t, AlgorithmRSA2048)), "SHA-256"},
		"no names":       {makeCSR(t, &x509.CertificateRequest{}, key), "no name"},
		"bad name":       {makeCSR(t, &x509.CertificateRequest{DNSNames: []string{"a b"}}, key), `"a b"`},
		"CN is no name":  {makeCSR(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "My Server"}, DNSNames: []string{"a.example"}}, key), "My Server"},
		"URI":            {makeCSR(t, withURI, key), "URIs"},
		"mail":           {makeCSR(t, withMail, key), "e-mail"},
		"CA:TRUE":        {withExtension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30, 0x03, 0x01, 0x01, 0xff}), "CA certificate"},
		"broken CA":      {withExtension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30}), "CA certificate"},
		"name limits":    {withExtension(asn1.ObjectIdentifier{2, 5, 29, 30}, []byte{0x30, 0x00}), "2.5.29.30"},
		"with its key":   {append(slices.Clone(goodPEM), keyPEM...), "private key"},
		"a key":          {keyPEM, "private key"},
		"two":            {append(slices.Clone(goodPEM), goodPEM...), "more than one"},
		"a certificate":  {toPEM("CERTIFICATE", good), "not a certificate signing request"},
		"too large":      {make([]byte, maxKeyText+1), "larger"},
		"trailing bytes": {append(slices.Clone(good), 0), "not a certificate signing request"},
	} {
		_, err := ParseCSR(test.data)
		f := fault.As(err)
		if f == nil || f.Code != fault.CodeInvalid || !strings.HasPrefix(f.What, "csr_pem: ") || !strings.Contains(f.What, test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	if _, err := ParseCSR(goodPEM); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func FuzzParseCSR(f *testing.F) {
	key := mustKey(f, AlgorithmEd25519)
	good := makeCSR(f, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "example.com"}, DNSNames: []string{"example.com", "*.example.com"},
	}, key)
	f.Add(good)
	f.Add(toPEM("CERTIFICATE REQUEST", good))
	f.Add([]byte("-----BEGIN NEW CERTIFICATE REQUEST-----\nMA==\n-----END NEW CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		csr, err := ParseCSR(data)
		if err != nil {
			if fault.As(err) == nil {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		if len(csr.Names.All()) == 0 || csr.PublicKey == nil {
			t.Fatalf("accepted without name or key: %+v", csr)
		}
		if _, err := ParseCSR(csr.PEM()); err != nil {
			t.Fatalf("does not survive a round: %v", err)
		}
	})
}
