package certs

import (
	"bytes"
	"fmt"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"

	"certharbor.dev/certharbor/internal/seal"
)

// jks makes a Java key store with one entry under the alias domain_name, or, when
// the key is withheld, with one entry for each certificate.
func (b Bundle) jks() (body []byte, password string, err error) {
	password = seal.NewToken("", passwordBytes)
	secret := []byte(password)
	defer clear(secret)
	store := keystore.New(keystore.WithOrderedAliases())
	if b.Key != nil {
		entry := keystore.PrivateKeyEntry{CreationTime: b.Time, PrivateKey: b.Key}
		for _, certificate := range b.certificates() {
			entry.CertificateChain = append(entry.CertificateChain, keystore.Certificate{Type: "X509", Content: certificate.Raw})
		}
		if err := store.SetPrivateKeyEntry(b.Domain, entry, secret); err != nil {
			return nil, "", fmt.Errorf("java key store: %w", err)
		}
	} else {
		for i, certificate := range b.certificates() {
			entry := keystore.TrustedCertificateEntry{
				CreationTime: b.Time,
				Certificate:  keystore.Certificate{Type: "X509", Content: certificate.Raw},
			}
			if err := store.SetTrustedCertificateEntry(b.alias(i), entry); err != nil {
				return nil, "", fmt.Errorf("java key store: %w", err)
			}
		}
	}
	var out bytes.Buffer
	if err := store.Store(&out, secret); err != nil {
		return nil, "", fmt.Errorf("java key store: %w", err)
	}
	return out.Bytes(), password, nil
}

// trustPFX makes a PKCS#12 store of certificates alone.
func (b Bundle) trustPFX(password string) ([]byte, error) {
	certificates := b.certificates()
	entries := make([]pkcs12.TrustStoreEntry, len(certificates))
	for i, certificate := range certificates {
		entries[i] = pkcs12.TrustStoreEntry{Cert: certificate, FriendlyName: b.alias(i)}
	}
	return pkcs12.Modern2023.EncodeTrustStoreEntries(entries, password)
}

// alias names the certificates of a store without a key: the leaf by domain_name.
func (b Bundle) alias(i int) string {
	if i == 0 {
		return b.Domain
	}
	return fmt.Sprintf("%s-issuer-%d", b.Domain, i)
}
