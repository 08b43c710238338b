package certs

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/certs/pfx"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
)

// Format is the format of an export (decisions.md section 4).
type Format string

// The formats.
const (
	FormatZIP Format = "zip" // wire.md section 9
	FormatPEM Format = "pem" // private key, leaf, issuers in one text
	FormatPFX Format = "pfx" // PKCS#12
	FormatJKS Format = "jks" // Java key store
	FormatDER Format = "der" // the leaf alone
)

// passwordBytes of randomness become 40 characters of A-Z a-z 0-9 - _.
const passwordBytes = 30

// ParseFormat reads the query parameter format; empty means zip. The error is a
// fault.
func ParseFormat(text string) (Format, error) {
	switch format := Format(text); format {
	case "":
		return FormatZIP, nil
	case FormatZIP, FormatPEM, FormatPFX, FormatJKS, FormatDER:
		return format, nil
	}
	return "", fault.Invalid("format", "must be zip, pem, pfx, jks or der")
}

// Bundle is what an export is made of.
type Bundle struct {
	CertID      int64
	Domain      string // domain_name, the friendly name in key stores
	Chain       Chain
	Key         []byte // PKCS#8 DER; nil when it is withheld
	KeyWithheld string // why, a public sentence for meta.json; see [Policy.KeyWithheld]
	Time        time.Time
}

// File is a finished export.
type File struct {
	Name        string // for Content-Disposition
	ContentType string
	Body        []byte
	Password    string // of the key store inside, for X-Export-Password; "" when nothing is encrypted
}

// Export makes the file wholly in memory, so that a failure leaves no partial
// archive, and with a fresh password that stands in no member. The format der and
// every bundle without a key hold no private key.
func (b Bundle) Export(format Format) (File, error) {
	file := File{Name: fmt.Sprintf("cert-%d.%s", b.CertID, format)}
	var err error
	switch format {
	case FormatZIP:
		file.ContentType = "application/zip"
		file.Body, file.Password, err = b.zip()
	case FormatPEM:
		file.ContentType = "application/x-pem-file"
		file.Body = b.pem()
	case FormatPFX:
		file.ContentType = "application/x-pkcs12"
		file.Body, file.Password, err = b.pfx()
	case FormatJKS:
		file.ContentType = "application/x-java-keystore"
		file.Body, file.Password, err = b.jks()
	case FormatDER:
		file.ContentType = "application/pkix-cert"
		file.Body = b.Chain.Leaf.Raw
	default:
		err = errors.New("unknown format")
	}
	if err != nil {
		return File{}, fmt.Errorf("export certificate %d as %s: %w", b.CertID, format, err)
	}
	return file, nil
}

func (b Bundle) pem() []byte {
	if b.Key == nil {
		return b.Chain.FullPEM()
	}
	return append(KeyPEM(b.Key), b.Chain.FullPEM()...)
}

// pfx is a store of key and chain, or of certificates alone without a key.
func (b Bundle) pfx() (body []byte, password string, err error) {
	password = seal.NewToken("", passwordBytes)
	if b.Key == nil {
		body, err = b.trustPFX(password)
		return body, password, err
	}
	store := pfx.Store{FriendlyName: b.Domain, Key: b.Key, Password: password}
	for _, certificate := range b.certificates() {
		store.Certificates = append(store.Certificates, certificate.Raw)
	}
	body, err = pfx.Encode(store)
	return body, password, err
}

func (b Bundle) certificates() []*x509.Certificate {
	return append([]*x509.Certificate{b.Chain.Leaf}, b.Chain.Issuers...)
}

// meta is the member meta.json.
func (b Bundle) meta() ([]byte, error) {
	return json.Marshal(struct {
		CertID      int64  `json:"cert_id"`
		KeyWithheld string `json:"key_withheld,omitempty"`
	}{b.CertID, b.KeyWithheld})
}
