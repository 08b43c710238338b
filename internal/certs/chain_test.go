package certs

import (
	"bytes"
	"crypto/x509"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseChainPutsInOrder(t *testing.T) {
	t.Parallel()
	want, _ := threeTier(t, "example.com")
	blocks := [][]byte{want.LeafPEM(), certificatesPEM(want.Issuers[0]), certificatesPEM(want.Issuers[1])}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 0, 1, 2, 1}} {
		var text []byte
		for _, i := range order {
			text = append(text, "subject=some text, as openssl writes it\n"...)
			text = append(text, blocks[i]...)
		}
		got, err := ParseChain(text)
		if err != nil {
			t.Errorf("%v: %v", order, err)
			continue
		}
		if !bytes.Equal(got.FullPEM(), want.FullPEM()) {
			t.Errorf("%v: another order", order)
		}
	}
	alone, err := ParseChain(want.LeafPEM())
	if err != nil || len(alone.Issuers) != 0 || alone.IssuersPEM() != nil {
		t.Errorf("a leaf alone: %v", err)
	}
	windows := strings.ReplaceAll(string(want.FullPEM()), "\n", "\r\n")
	if got, err := ParseChain([]byte(windows)); err != nil || !bytes.Equal(got.FullPEM(), want.FullPEM()) {
		t.Errorf("with CRLF: %v", err)
	}
	if got, err := ParseChain(JoinPEM(string(want.LeafPEM()), " "+string(want.IssuersPEM()))); err != nil || len(got.Issuers) != 2 {
		t.Errorf("JoinPEM: %v", err)
	}
	root := newCA(t, "Self", nil)
	if got, err := ParseChain(certificatesPEM(root.certificate)); err != nil || !got.Leaf.IsCA {
		t.Errorf("a self-signed certificate that calls itself a CA: %v", err)
	}
}

// TestParseChainVerifies holds the order to openssl's view.
func TestParseChainVerifies(t *testing.T) {
	t.Parallel()
	chain, _ := threeTier(t, "example.com")
	parsed, err := ParseChain(chain.FullPEM())
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, "openssl", "verify", "-CAfile", writeFile(t, certificatesPEM(parsed.Issuers[1])),
		"-untrusted", writeFile(t, certificatesPEM(parsed.Issuers[0])), "-attime", "1790000000", writeFile(t, parsed.LeafPEM()))
	if !strings.Contains(out, ": OK") {
		t.Error(out)
	}
}

func TestParseChainRefuses(t *testing.T) {
	t.Parallel()
	chain, key := threeTier(t, "example.com")
	other, _ := threeTier(t, "other.example")
	full := chain.FullPEM()
	keyPEM := KeyPEM(must(MarshalKey(key))(t))
	// Same name as the real intermediate, another key: it did not sign the leaf.
	impostor := newCA(t, "Intermediate", nil)
	var many []byte
	for range maxCertificates + 1 {
		many = append(many, chain.LeafPEM()...)
	}
	for name, test := range map[string]struct {
		text []byte
		says string
	}{
		"empty":           {nil, "no certificate"},
		"text":            {[]byte("hello"), "no certificate"},
		"NUL":             {make([]byte, 1000), "no certificate"},
		"private key":     {append(slices.Clone(full), keyPEM...), "private key"},
		"key in a header": {append([]byte("-----BEGIN RSA PRIVATE KEY-----\nx"), full...), "private key"},
		"request":         {append(slices.Clone(full), toPEM("CERTIFICATE REQUEST", []byte{0})...), "not a certificate"},
		"two leaves":      {append(slices.Clone(full), other.LeafPEM()...), "more than one leaf"},
		"foreign issuer":  {append(slices.Clone(full), certificatesPEM(other.Issuers[0])...), "does not belong"},
		"impostor":        {append(chain.LeafPEM(), certificatesPEM(impostor.certificate)...), "does not belong"},
		"a gap":           {append(chain.LeafPEM(), certificatesPEM(chain.Issuers[1])...), "does not belong"},
		"cut":             {full[:len(full)-40], "damaged"},
		"damaged":         {bytes.Replace(full, []byte("\nM"), []byte("\n!"), 1), "damaged"},
		"not DER":         {toPEM("CERTIFICATE", []byte("not DER")), "certificate 1 cannot be read"},
		"trailing DER":    {toPEM("CERTIFICATE", append(slices.Clone(chain.Leaf.Raw), 0)), "certificate 1 cannot be read"},
		"too many":        {many, "more than 10"},
		"too large":       {bytes.Repeat([]byte("x"), maxChainText+1), "larger"},
	} {
		if _, err := ParseChain(test.text); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestCheckLeaf(t *testing.T) {
	t.Parallel()
	chain, key := threeTier(t, "Example.com", "*.Apps.example.com", "10.0.0.1", "2001:db8::1")
	for _, names := range [][]string{
		{"example.com"}, {"a.apps.example.com", "*.apps.example.com"}, {"10.0.0.1", "2001:db8::1", "example.com"}, nil,
	} {
		if err := chain.CheckLeaf(key.Public(), names); err != nil {
			t.Errorf("%v: %v", names, err)
		}
	}
	for _, name := range []string{
		"www.example.com", "apps.example.com", "a.b.apps.example.com", "*.example.com", "com", "10.0.0.2", "0.0.1", "example.com.evil",
	} {
		if err := chain.CheckLeaf(key.Public(), []string{"example.com", name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := chain.CheckLeaf(mustKey(t, AlgorithmECDSA).Public(), nil); err == nil {
		t.Error("another key matches")
	}
	backwards := *chain.Leaf
	backwards.NotAfter = backwards.NotBefore
	if err := (Chain{Leaf: &backwards}).CheckLeaf(key.Public(), nil); err == nil {
		t.Error("ends before it begins: accepted")
	}
	zero := *chain.Leaf
	zero.SerialNumber = new(big.Int)
	if err := (Chain{Leaf: &zero}).CheckLeaf(key.Public(), nil); err == nil {
		t.Error("serial number 0: accepted")
	}
}

func TestDescribeAgreesWithOpenSSL(t *testing.T) {
	t.Parallel()
	chain, _ := threeTier(t, "example.com", "www.example.com")
	leaf := chain.Describe()
	path := writeFile(t, chain.LeafPEM())
	out := run(t, "openssl", "x509", "-in", path, "-noout", "-serial", "-fingerprint", "-sha256", "-issuer", "-nameopt", "RFC2253", "-dates", "-dateopt", "iso_8601")
	colons := strings.ToLower(strings.ReplaceAll(out, ":", ""))
	if !strings.Contains(colons, "serial="+leaf.SerialNumber+"\n") || !strings.Contains(colons, "="+leaf.FingerprintSHA256+"\n") {
		t.Errorf("%+v\n%s", leaf, out)
	}
	if !strings.Contains(out, "issuer="+leaf.Issuer+"\n") {
		t.Errorf("issuer %q\n%s", leaf.Issuer, out)
	}
	for _, at := range []int64{leaf.NotBefore, leaf.NotAfter} {
		if text := time.UnixMilli(at).UTC().Format("2006-01-02 15:04:05Z"); !strings.Contains(out, text) {
			t.Errorf("%s\n%s", text, out)
		}
	}
	if leaf.SelfSigned {
		t.Error("a leaf signed by a CA is said to be self-signed")
	}
	root := newCA(t, "Self", nil)
	if !(Chain{Leaf: root.certificate}).Describe().SelfSigned {
		t.Error("a self-signed certificate is not said to be")
	}
	names, err := chain.LeafNames()
	if err != nil || names.Domain != "example.com" || len(names.All()) != 2 {
		t.Errorf("LeafNames = %+v, %v", names, err)
	}
	if _, err := (Chain{Leaf: root.certificate}).LeafNames(); err == nil {
		t.Error("LeafNames without names: no error")
	}
}

func FuzzParseChain(f *testing.F) {
	chain, _ := threeTier(f, "example.com")
	f.Add(chain.FullPEM())
	f.Add(chain.IssuersPEM())
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		chain, err := ParseChain(text)
		if err != nil {
			return
		}
		current := chain.Leaf
		for _, issuer := range chain.Issuers {
			if current.CheckSignatureFrom(issuer) != nil {
				t.Fatal("an issuer did not sign what stands before it")
			}
			current = issuer
		}
		blocks := strings.SplitAfter(string(chain.FullPEM()), "-----END CERTIFICATE-----\n")
		rand.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		again, err := ParseChain([]byte(strings.Join(blocks, "")))
		leaves := slices.DeleteFunc(append([]*x509.Certificate{chain.Leaf}, chain.Issuers...), func(c *x509.Certificate) bool { return c.IsCA })
		if len(leaves) == 1 && (err != nil || !bytes.Equal(again.FullPEM(), chain.FullPEM())) {
			t.Fatalf("shuffled: %v", err)
		}
		_ = chain.Describe()
	})
}
