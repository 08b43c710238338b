package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mholt/acmez/v3/acme"
)

// Account is who speaks to the CA.
type Account struct {
	// URL is the account's URL at the CA (RFC 8555 section 7.1.2), from Register.
	URL string
	// Key is the account's key pair.
	Key *ecdsa.PrivateKey
}

// String gives the URL alone, so that printing an account shows no key.
func (a Account) String() string { return a.URL }

// GoString does the same for %#v.
func (a Account) GoString() string { return a.URL }

// LogValue does the same for slog.
func (a Account) LogValue() slog.Value { return slog.StringValue(a.URL) }

func (a Account) wire() acme.Account { return acme.Account{Location: a.URL, PrivateKey: a.Key} }

// GenerateKey makes an account key: ECDSA on P-256, which every CA accepts.
func GenerateKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate account key: %w", err)
	}
	return key, nil
}

// MarshalKey gives an account key as PKCS#8 DER (RFC 5958), to be sealed.
func MarshalKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("marshal account key: %w", err)
	}
	return der, nil
}

// ParseKey reads what MarshalKey wrote.
func ParseKey(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("parse account key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("parse account key: not an ECDSA key")
	}
	return key, nil
}
