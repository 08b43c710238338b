package pfx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

func newStore(t *testing.T, certificates int) (Store, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	store := Store{FriendlyName: "*.müller.example", Password: "pass-Word_1234567890123456789012345678"}
	if store.Key, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		t.Fatal(err)
	}
	for i := range certificates {
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), NotAfter: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		store.Certificates = append(store.Certificates, der)
	}
	return store, key
}

func TestEncodeReadsWithLibrary(t *testing.T) {
	t.Parallel()
	for certificates := 1; certificates <= 3; certificates++ {
		store, key := newStore(t, certificates)
		data, err := Encode(store)
		if err != nil {
			t.Fatal(err)
		}
		got, leaf, issuers, err := pkcs12.DecodeChain(data, store.Password)
		if err != nil {
			t.Fatal(err)
		}
		if !key.Equal(got) || !bytes.Equal(leaf.Raw, store.Certificates[0]) || len(issuers) != certificates-1 {
			t.Errorf("%d certificates: another key or chain came back", certificates)
		}
		for i, issuer := range issuers {
			if !bytes.Equal(issuer.Raw, store.Certificates[i+1]) {
				t.Errorf("issuer %d is another", i)
			}
		}
		if _, _, _, err := pkcs12.DecodeChain(data, store.Password+"x"); err == nil {
			t.Error("opens with a wrong password")
		}
	}
}

func TestEncodeReadsWithOpenSSL(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t, 2)
	data, err := Encode(store)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bundle.pfx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "openssl", "pkcs12", "-in", path, "-passin", "env:PASSWORD", "-nodes", "-info")
	command.Env = append(os.Environ(), "PASSWORD="+store.Password)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"BEGIN PRIVATE KEY", "friendlyName: *.m", "PBES2, PBKDF2, AES-256-CBC, Iteration 2048, PRF hmacWithSHA256", "MAC: sha256, Iteration 2048",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("openssl does not show %q:\n%s", want, out)
		}
	}
	if names, certificates := bytes.Count(out, []byte("friendlyName")), bytes.Count(out, []byte("BEGIN CERTIFICATE")); names != 2 || certificates != 2 {
		t.Errorf("%d friendly names, %d certificates", names, certificates)
	}
	command = exec.CommandContext(t.Context(), "openssl", "pkcs12", "-in", path, "-passin", "pass:wrong", "-noout")
	if out, err := command.CombinedOutput(); err == nil {
		t.Errorf("openssl opens it with a wrong password:\n%s", out)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Store){
		"no key":            func(s *Store) { s.Key = nil },
		"no certificate":    func(s *Store) { s.Certificates = nil },
		"emoji as password": func(s *Store) { s.Password = "🔑" },
		"emoji as name":     func(s *Store) { s.FriendlyName = "🔑" },
	} {
		store, _ := newStore(t, 1)
		change(&store)
		if _, err := Encode(store); err == nil || strings.Contains(err.Error(), "🔑") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeriveMACKey compares with a vector made by OpenSSL 3 as follows.
//
//	openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt hexpass:0073006d006500670000
//	  -kdfopt hexsalt:0a58cf64530d823f -kdfopt id:3 -kdfopt iter:1000 PKCS12KDF
func TestDeriveMACKey(t *testing.T) {
	t.Parallel()
	password, err := bmpString("smeg")
	if err != nil {
		t.Fatal(err)
	}
	got := deriveMACKey(append(password, 0, 0), []byte{0x0a, 0x58, 0xcf, 0x64, 0x53, 0x0d, 0x82, 0x3f}, 1000)
	if text := hex.EncodeToString(got); text != "35ac16a454d608fb10c8d7c6338ca85818587aed0ff771fd265957e412c2c03c" {
		t.Errorf("deriveMACKey = %s", text)
	}
}
