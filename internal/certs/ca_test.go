package certs

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// issuer is a CA of the tests.
type issuer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func mustKey(t testing.TB, algorithm KeyAlgorithm) crypto.Signer {
	t.Helper()
	key, err := GenerateKey(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate; a nil parent means self-signed.
func sign(t testing.TB, template *x509.Certificate, parent *issuer, key crypto.Signer) *x509.Certificate {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = new(big.Int).SetBytes(append([]byte{0x0a}, randomSerial(t)...))
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		template.NotAfter = time.Date(2046, 4, 1, 0, 0, 0, 0, time.UTC)
	}
	if parent == nil {
		parent = &issuer{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.certificate, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func randomSerial(t testing.TB) []byte {
	t.Helper()
	out := make([]byte, 9)
	if _, err := rand.Read(out); err != nil {
		t.Fatal(err)
	}
	return out
}

func newCA(t testing.TB, name string, parent *issuer) *issuer {
	t.Helper()
	key := mustKey(t, AlgorithmECDSA)
	certificate := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"Test"}}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, parent, key)
	return &issuer{certificate, key}
}

func (ca *issuer) leaf(t testing.TB, key crypto.Signer, names ...string) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	return sign(t, template, ca, key)
}

func toPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// threeTier gives a chain of leaf, intermediate and root, and the leaf's key.
func threeTier(t testing.TB, names ...string) (Chain, crypto.Signer) {
	t.Helper()
	root := newCA(t, "Root", nil)
	intermediate := newCA(t, "Intermediate", root)
	key := mustKey(t, AlgorithmECDSA)
	return Chain{
		Leaf:    intermediate.leaf(t, key, names...),
		Issuers: []*x509.Certificate{intermediate.certificate, root.certificate},
	}, key
}

// run gives the output of a program, openssl or keytool, and fails the test when
// it fails.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var errors bytes.Buffer
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, errors.String())
	}
	return string(out) + errors.String()
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
