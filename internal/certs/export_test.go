package certs

import (
	"archive/zip"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"

	"certharbor.dev/certharbor/internal/fault"
)

var passwordForm = regexp.MustCompile(`^[A-Za-z0-9_-]{40}$`)

func newBundle(t *testing.T) Bundle {
	t.Helper()
	chain, key := threeTier(t, "example.com", "*.example.com")
	return Bundle{
		CertID: 42, Domain: "*.example.com", Chain: chain, Key: must(MarshalKey(key))(t),
		Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

func export(t *testing.T, bundle Bundle, format Format) File {
	t.Helper()
	file, err := bundle.Export(format)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// unzip gives the names in order and the content of every member.
func unzip(t *testing.T, body []byte) ([]string, map[string][]byte) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	members := map[string][]byte{}
	for _, file := range archive.File {
		reader, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if file.Mode() != 0o600 {
			t.Errorf("%s has mode %v", file.Name, file.Mode())
		}
		names = append(names, file.Name)
		members[file.Name] = content
	}
	return names, members
}

func TestZIP(t *testing.T) {
	t.Parallel()
	bundle := newBundle(t)
	file := export(t, bundle, FormatZIP)
	if file.Name != "cert-42.zip" || file.ContentType != "application/zip" || !passwordForm.MatchString(file.Password) {
		t.Errorf("file %q, %q, password %q", file.Name, file.ContentType, file.Password)
	}
	names, members := unzip(t, file.Body)
	if want := []string{
		"private.key", "certificate.pem", "certificate.der", "chain.pem", "fullchain.pem", "bundle.pfx", "meta.json",
	}; !slices.Equal(names, want) {
		t.Errorf("members %v", names)
	}
	for name, content := range members {
		if bytes.Contains(content, []byte(file.Password)) {
			t.Errorf("%s holds the password", name)
		}
	}
	if bytes.Contains(file.Body, []byte(file.Password)) {
		t.Error("the archive holds the password")
	}
	key, err := ParseKey(members["private.key"])
	if err != nil || !bytes.HasPrefix(members["private.key"], []byte("-----BEGIN PRIVATE KEY-----\n")) {
		t.Fatalf("private.key: %v", err)
	}
	full, err := ParseChain(members["fullchain.pem"])
	if err != nil || full.CheckLeaf(key.Public(), []string{"example.com"}) != nil || len(full.Issuers) != 2 {
		t.Errorf("fullchain.pem does not fit the key: %v", err)
	}
	if joined := append(bytes.Clone(members["certificate.pem"]), members["chain.pem"]...); !bytes.Equal(joined, members["fullchain.pem"]) {
		t.Error("fullchain.pem is not certificate.pem and chain.pem")
	}
	if block, _ := pem.Decode(members["certificate.pem"]); !bytes.Equal(block.Bytes, members["certificate.der"]) {
		t.Error("certificate.der is another certificate")
	}
	if string(members["meta.json"]) != `{"cert_id":42}` {
		t.Errorf("meta.json: %s", members["meta.json"])
	}
	_, leaf, issuers, err := pkcs12.DecodeChain(members["bundle.pfx"], file.Password)
	if err != nil || !leaf.Equal(bundle.Chain.Leaf) || len(issuers) != 2 {
		t.Errorf("bundle.pfx: %v", err)
	}
	if again := export(t, bundle, FormatZIP); again.Password == file.Password {
		t.Error("the password is not fresh")
	}

	bundle.Chain.Issuers = nil
	names, _ = unzip(t, export(t, bundle, FormatZIP).Body)
	if slices.Contains(names, "chain.pem") || len(names) != 6 {
		t.Errorf("without issuers: %v", names)
	}
}

// TestZIPOutside unpacks with unzip's own rules and opens the store with openssl,
// as scripts in the field do; the password goes through the environment.
func TestZIPOutside(t *testing.T) {
	t.Parallel()
	file := export(t, newBundle(t), FormatZIP)
	_, members := unzip(t, file.Body)
	path := writeFile(t, members["bundle.pfx"])
	openssl := func(password string, args ...string) ([]byte, error) {
		command := exec.CommandContext(t.Context(), "openssl", append([]string{"pkcs12", "-in", path, "-passin", "env:PASSWORD"}, args...)...)
		command.Env = append(os.Environ(), "PASSWORD="+password)
		return command.CombinedOutput()
	}
	out, err := openssl(file.Password, "-nodes")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := bytes.Count(out, []byte("friendlyName: *.example.com")); got != 2 {
		t.Errorf("the friendly name stands %d times:\n%s", got, out)
	}
	if got := bytes.Count(out, []byte("BEGIN CERTIFICATE")); got != 3 {
		t.Errorf("%d certificates", got)
	}
	_, keyText, found := bytes.Cut(out, []byte("Key Attributes"))
	if !found {
		t.Fatalf("no key:\n%s", out)
	}
	key, err := ParseKey(keyText)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseKey(members["private.key"])
	if err != nil || !SameKey(key.Public(), want.Public()) {
		t.Errorf("another key: %v", err)
	}
	if out, err := openssl("wrong", "-noout"); err == nil {
		t.Errorf("opens with a wrong password: %s", out)
	}
}

func TestExportWithheldKey(t *testing.T) {
	t.Parallel()
	bundle := newBundle(t)
	key := bundle.Key
	bundle.Key, bundle.KeyWithheld = nil, PolicyDeviceRequired.KeyWithheld(true)
	file := export(t, bundle, FormatZIP)
	names, members := unzip(t, file.Body)
	if want := []string{"certificate.pem", "certificate.der", "chain.pem", "fullchain.pem", "meta.json"}; !slices.Equal(names, want) {
		t.Errorf("members %v", names)
	}
	if file.Password != "" {
		t.Error("a password without anything that it opens")
	}
	if meta := string(members["meta.json"]); !strings.HasPrefix(meta, `{"cert_id":42,"key_withheld":"The policy DEVICE_REQUIRED `) {
		t.Errorf("meta.json: %s", meta)
	}
	for _, format := range []Format{FormatZIP, FormatPEM, FormatPFX, FormatJKS, FormatDER} {
		file := export(t, bundle, format)
		if bytes.Contains(file.Body, key[20:60]) || bytes.Contains(file.Body, []byte("PRIVATE KEY")) {
			t.Errorf("%s holds the key", format)
		}
	}
	certificates, err := pkcs12.DecodeTrustStore(mustPFX(t, bundle))
	if err != nil || len(certificates) != 3 || !certificates[0].Equal(bundle.Chain.Leaf) {
		t.Errorf("pfx: %d certificates, %v", len(certificates), err)
	}
	store, _ := loadJKS(t, bundle)
	if aliases := store.Aliases(); len(aliases) != 3 || !store.IsTrustedCertificateEntry("*.example.com") {
		t.Errorf("jks: %v", aliases)
	}
}

func mustPFX(t *testing.T, bundle Bundle) ([]byte, string) {
	t.Helper()
	file := export(t, bundle, FormatPFX)
	return file.Body, file.Password
}

func loadJKS(t *testing.T, bundle Bundle) (keystore.KeyStore, []byte) {
	t.Helper()
	file := export(t, bundle, FormatJKS)
	if !passwordForm.MatchString(file.Password) || file.Name != "cert-42.jks" {
		t.Errorf("file %q, password %q", file.Name, file.Password)
	}
	store := keystore.New()
	if err := store.Load(bytes.NewReader(file.Body), []byte(file.Password)); err != nil {
		t.Fatal(err)
	}
	return store, []byte(file.Password)
}

func TestOtherFormats(t *testing.T) {
	t.Parallel()
	bundle := newBundle(t)
	text := export(t, bundle, FormatPEM)
	if want := append(KeyPEM(bundle.Key), bundle.Chain.FullPEM()...); !bytes.Equal(text.Body, want) || text.Password != "" {
		t.Errorf("pem: %s", text.Body)
	}
	if der := export(t, bundle, FormatDER); !bytes.Equal(der.Body, bundle.Chain.Leaf.Raw) || der.Name != "cert-42.der" {
		t.Error("der is not the leaf")
	}
	if _, leaf, _, err := pkcs12.DecodeChain(mustPFX(t, bundle)); err != nil || !leaf.Equal(bundle.Chain.Leaf) {
		t.Errorf("pfx: %v", err)
	}
	store, password := loadJKS(t, bundle)
	entry, err := store.GetPrivateKeyEntry("*.example.com", password)
	if err != nil || !bytes.Equal(entry.PrivateKey, bundle.Key) || len(entry.CertificateChain) != 3 {
		t.Fatalf("jks: %v", err)
	}
	if leaf, err := x509.ParseCertificate(entry.CertificateChain[0].Content); err != nil || !leaf.Equal(bundle.Chain.Leaf) {
		t.Errorf("jks: the first certificate is not the leaf: %v", err)
	}
	if _, err := bundle.Export("exe"); err == nil {
		t.Error("an unknown format: no error")
	}
}

func TestExportFailsWhole(t *testing.T) {
	t.Parallel()
	bundle := newBundle(t)
	bundle.Domain = "🔑" // no friendly name can hold it
	file, err := bundle.Export(FormatZIP)
	if err == nil || file.Body != nil || file.Password != "" {
		t.Errorf("a failed export gives %d bytes, %v", len(file.Body), err)
	}
}

func TestParseFormat(t *testing.T) {
	t.Parallel()
	for _, good := range []Format{FormatZIP, FormatPEM, FormatPFX, FormatJKS, FormatDER} {
		if got, err := ParseFormat(string(good)); got != good || err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if got, err := ParseFormat(""); got != FormatZIP || err != nil {
		t.Errorf("empty: %s, %v", got, err)
	}
	if _, err := ParseFormat("ZIP"); !fault.Is(err, fault.CodeInvalid) {
		t.Errorf("ZIP: %v", err)
	}
}

// TestExportLeavesNoFile: nothing is written to the folder of temporary files.
func TestExportLeavesNoFile(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	bundle := newBundle(t)
	for _, format := range []Format{FormatZIP, FormatPEM, FormatPFX, FormatJKS, FormatDER} {
		export(t, bundle, format)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
