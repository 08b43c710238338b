package material

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// ParseKey reads an unencrypted private key: PKCS#8, SEC1 or PKCS#1, as DER
// or as PEM.
func ParseKey(data []byte) (crypto.Signer, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		der, err := keyBlock(data)
		if err != nil {
			return nil, err
		}
		data = der
	}
	if key, err := x509.ParsePKCS8PrivateKey(data); err == nil {
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("private key of type %T cannot sign", key)
		}
		return signer, nil
	}
	if key, err := x509.ParseECPrivateKey(data); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(data); err == nil {
		return key, nil
	}
	// The parsers' own messages could quote key bytes: keep them out.
	return nil, errors.New("the private key is neither PKCS#8 nor SEC1 nor PKCS#1")
}

// keyBlock finds the key among the blocks; OpenSSL puts EC PARAMETERS first.
func keyBlock(data []byte) ([]byte, error) {
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			return nil, errors.New("the PEM text holds no private key")
		}
		switch block.Type {
		case "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY":
			return block.Bytes, nil
		}
	}
}

// ParseCertificates reads every CERTIFICATE block of a PEM text, in order.
func ParseCertificates(text string) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	rest := []byte(text)
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of the chain: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("the PEM text holds no certificate")
	}
	return certs, nil
}

// ErrMismatch says that leaf and private key do not belong together.
var ErrMismatch = errors.New("the certificate does not match its private key")

// checkPair gives ErrMismatch unless leaf certifies key's public half.
func checkPair(leaf *x509.Certificate, key crypto.Signer) error {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return ErrMismatch
	}
	return nil
}
