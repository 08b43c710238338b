package material_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"certharbor.dev/certharbor/internal/agent/material"
)

type pair struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func issue(t *testing.T, serial int64, parent *pair) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"a.test"}, IsCA: parent == nil, BasicConstraintsValid: true,
	}
	issuer, signer := template, crypto.Signer(key)
	if parent != nil {
		issuer, signer = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{key, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

func plain(t *testing.T, key *ecdsa.PrivateKey) material.Sealed {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return material.Sealed{EncScheme: "plaintext", PrivateKeyDERB64: base64.StdEncoding.EncodeToString(der)}
}

func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	root := issue(t, 1, nil)
	leaf := issue(t, 0xabc, root)
	rec := material.Record{ID: 7, DomainName: "a.test", Cert: leaf.pem + root.pem, Sealed: plain(t, leaf.key)}
	o, err := material.Certificate(material.DeviceKey{}, rec, "pass word")
	if err != nil {
		t.Fatal(err)
	}
	if o.Serial != "abc" {
		t.Errorf("serial %s", o.Serial)
	}
	for name, want := range map[string]string{
		"certificate.pem": leaf.pem, "chain.pem": root.pem, "fullchain.pem": leaf.pem + root.pem, "certificate.der": string(leaf.cert.Raw),
	} {
		if got := o.Files[name]; string(got.Data) != want || got.Secret {
			t.Errorf("%s: %q, secret %v", name, got.Data, got.Secret)
		}
	}
	for _, name := range []string{"private.key", "bundle.pfx"} {
		if !o.Files[name].Secret {
			t.Errorf("%s is not marked secret", name)
		}
	}
	key, cert, cas, err := pkcs12.DecodeChain(o.Files["bundle.pfx"].Data, "pass word")
	if err != nil || !leaf.key.Equal(key) || !cert.Equal(leaf.cert) || len(cas) != 1 {
		t.Errorf("bundle.pfx: %v", err)
	}
	again, err := material.Certificate(material.DeviceKey{}, rec, "pass word")
	if err != nil {
		t.Fatal(err)
	}
	for name := range o.Files {
		if o.Files[name].Source != again.Files[name].Source {
			t.Errorf("source of %s changes without cause", name)
		}
	}
}

// openssl is what most services and operators read PKCS#12 with.
func TestOpenSSLReadsBundle(t *testing.T) {
	t.Parallel()
	root := issue(t, 1, nil)
	leaf := issue(t, 2, root)
	rec := material.Record{ID: 7, Cert: leaf.pem, ChainPEM: root.pem, Sealed: plain(t, leaf.key)}
	o, err := material.Certificate(material.DeviceKey{}, rec, "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bundle.pfx")
	if err := os.WriteFile(path, o.Files["bundle.pfx"].Data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("openssl", "pkcs12", "-in", path, "-nodes", "-passin", "pass:").CombinedOutput()
	if err != nil || strings.Count(string(out), "BEGIN CERTIFICATE") != 2 || !strings.Contains(string(out), "BEGIN PRIVATE KEY") {
		t.Errorf("openssl: %v\n%s", err, out)
	}
}

func TestCertificateRefusesMismatch(t *testing.T) {
	t.Parallel()
	leaf, other := issue(t, 2, nil), issue(t, 3, nil)
	rec := material.Record{ID: 7, Cert: leaf.pem, Sealed: plain(t, other.key)}
	if _, err := material.Certificate(material.DeviceKey{}, rec, ""); !errors.Is(err, material.ErrMismatch) {
		t.Errorf("got %v", err)
	}
}

func TestCertificateWithoutKeyHasPublicFilesOnly(t *testing.T) {
	t.Parallel()
	o, err := material.Certificate(material.DeviceKey{}, material.Record{ID: 7, Cert: issue(t, 2, nil).pem}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := o.Files["private.key"]; ok || len(o.Files) != 5 {
		t.Errorf("files %v", o.Files)
	}
}

func TestParseKeyForms(t *testing.T) {
	t.Parallel()
	key := issue(t, 1, nil).key
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	params := "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
	text := params + string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}))
	for name, data := range map[string][]byte{"SEC1 DER": sec1, "PEM": []byte(text)} {
		got, err := material.ParseKey(data)
		if err != nil || !key.Equal(got) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "x", "-----BEGIN", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := material.ParseKey([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	root := issue(t, 0x1f, nil)
	o, err := material.Authority(material.CA{ID: 3, CertificatePEM: root.pem})
	if err != nil {
		t.Fatal(err)
	}
	if o.Serial != "1f" || string(o.Files["ca.pem"].Data) != root.pem || string(o.Files["ca.der"].Data) != string(root.cert.Raw) {
		t.Errorf("%+v", o)
	}
	if _, err := material.Authority(material.CA{ID: 3}); err == nil {
		t.Error("empty CA accepted")
	}
}
