package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerateMarshalParse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "ECDSA", "ECDSA_P384", "RSA_2048", "RSA_3072", "ED25519"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			algorithm, err := ParseKeyAlgorithm(name)
			if err != nil {
				t.Fatal(err)
			}
			if name != "" && string(algorithm) != name || name == "" && algorithm != AlgorithmECDSA {
				t.Errorf("ParseKeyAlgorithm = %s", algorithm)
			}
			key := mustKey(t, algorithm)
			if got, err := AlgorithmOf(key.Public()); got != algorithm || err != nil {
				t.Errorf("AlgorithmOf = %s, %v", got, err)
			}
			der, err := MarshalKey(key)
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range [][]byte{der, KeyPEM(der)} {
				got, err := ParseKey(form)
				if err != nil || !SameKey(got.Public(), key.Public()) {
					t.Errorf("ParseKey: %v", err)
				}
			}
		})
	}
	for _, bad := range []string{"ecdsa", "RSA", "RSA_1024", "ECDSA_P224", "ECDSA ", "\x00"} {
		if _, err := ParseKeyAlgorithm(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
	if _, err := GenerateKey("RSA_512"); err == nil {
		t.Error("GenerateKey takes any algorithm")
	}
}

// TestParseKeyForms reads what openssl writes.
func TestParseKeyForms(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	run(t, "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-out", file("sec1.pem")) // with EC PARAMETERS
	run(t, "openssl", "pkcs8", "-topk8", "-nocrypt", "-in", file("sec1.pem"), "-out", file("pkcs8.pem"))
	run(t, "openssl", "ec", "-in", file("sec1.pem"), "-outform", "DER", "-out", file("sec1.der"))
	run(t, "openssl", "genrsa", "-traditional", "-out", file("pkcs1.pem"), "2048")
	run(t, "openssl", "rsa", "-traditional", "-in", file("pkcs1.pem"), "-outform", "DER", "-out", file("pkcs1.der"))
	run(t, "openssl", "pkcs8", "-topk8", "-nocrypt", "-in", file("pkcs1.pem"), "-outform", "DER", "-out", file("pkcs8.der"))
	run(t, "openssl", "genpkey", "-algorithm", "ed25519", "-out", file("ed25519.pem"))
	for _, name := range []string{"sec1.pem", "pkcs8.pem", "sec1.der", "pkcs1.pem", "pkcs1.der", "pkcs8.der", "ed25519.pem"} {
		data, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKey(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	run(t, "openssl", "pkcs8", "-topk8", "-in", file("sec1.pem"), "-passout", "pass:canary", "-out", file("encrypted8.pem"))
	run(t, "openssl", "rsa", "-traditional", "-aes256", "-in", file("pkcs1.pem"), "-passout", "pass:canary", "-out", file("encrypted1.pem"))
	for _, name := range []string{"encrypted8.pem", "encrypted1.pem"} {
		data, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKey(data); err == nil || !strings.Contains(err.Error(), "encrypted") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	der := func(key any) []byte {
		out, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	agreement, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := der(mustKey(t, AlgorithmECDSA))
	chain, _ := threeTier(t, "example.com")
	for name, data := range map[string][]byte{
		"empty":            nil,
		"spaces":           []byte("  \n"),
		"text":             []byte("not a key"),
		"P-224":            der(p224),
		"P-521":            der(p521),
		"RSA 1024":         KeyPEM(der(small)),
		"X25519":           der(agreement),
		"cut":              good[:len(good)-1],
		"cut PEM":          KeyPEM(good)[:60],
		"two keys":         append(KeyPEM(good), KeyPEM(good)...),
		"certificate":      chain.LeafPEM(),
		"public key":       toPEM("PUBLIC KEY", good),
		"too large":        make([]byte, maxKeyText+1),
		"OpenSSH":          toPEM("OPENSSH PRIVATE KEY", good),
		"DER in the wrong": toPEM("PRIVATE KEY", []byte("x")),
	} {
		key, err := ParseKey(data)
		if err == nil {
			t.Errorf("%s: accepted %T", name, key)
		}
	}
}

func TestCheckRSA(t *testing.T) {
	t.Parallel()
	key, ok := mustKey(t, AlgorithmRSA2048).(*rsa.PrivateKey)
	if !ok {
		t.Fatal("not an RSA key")
	}
	p, err := rand.Prime(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	near := new(big.Int).Add(p, big.NewInt(2))
	for !near.ProbablyPrime(20) {
		near.Add(near, big.NewInt(2))
	}
	for name, weak := range map[string]*rsa.PublicKey{
		"exponent 1":     {N: key.N, E: 1},
		"exponent 3":     {N: key.N, E: 3},
		"even exponent":  {N: key.N, E: 65538},
		"2047 bits":      {N: new(big.Int).Rsh(key.N, 1), E: 65537},
		"huge":           {N: new(big.Int).Lsh(key.N, maxRSABits), E: 65537},
		"small factor":   {N: new(big.Int).Mul(key.N, big.NewInt(751)), E: 65537},
		"close primes":   {N: new(big.Int).Mul(p, near), E: 65537},
		"a prime square": {N: new(big.Int).Mul(p, p), E: 65537},
	} {
		if err := CheckPublicKey(weak); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := CheckPublicKey("no key"); err == nil {
		t.Error("a string: accepted")
	}
}

func TestSameKey(t *testing.T) {
	t.Parallel()
	a, b := mustKey(t, AlgorithmECDSA), mustKey(t, AlgorithmECDSA)
	ed := mustKey(t, AlgorithmEd25519)
	if !SameKey(a.Public(), a.Public()) || SameKey(a.Public(), b.Public()) || SameKey(a.Public(), ed.Public()) {
		t.Error("SameKey is wrong")
	}
	if SameKey(nil, nil) || SameKey(crypto.PublicKey("x"), crypto.PublicKey("x")) {
		t.Error("unknown kinds are equal")
	}
}

func FuzzParseKey(f *testing.F) {
	der, err := MarshalKey(mustKey(f, AlgorithmEd25519))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Add(KeyPEM(der))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Add(bytes.Repeat([]byte{0x30, 0x80}, 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := ParseKey(data)
		if err != nil {
			return
		}
		der, err := MarshalKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseKey(der); err != nil || !SameKey(again.Public(), key.Public()) {
			t.Fatalf("does not survive a round: %v", err)
		}
	})
}
