package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// KeyAlgorithm is the key_algorithm of a certificate (decisions.md section 4).
type KeyAlgorithm string

// The key algorithms. ED25519 is for own CAs: no public CA signs it.
const (
	AlgorithmECDSA     KeyAlgorithm = "ECDSA" // P-256, the default
	AlgorithmECDSAP384 KeyAlgorithm = "ECDSA_P384"
	AlgorithmRSA2048   KeyAlgorithm = "RSA_2048"
	AlgorithmRSA3072   KeyAlgorithm = "RSA_3072"
	AlgorithmRSA4096   KeyAlgorithm = "RSA_4096"
	AlgorithmEd25519   KeyAlgorithm = "ED25519"
)

// maxKeyText bounds what is parsed as a key or a signing request, in bytes.
const maxKeyText = 64 << 10

// ParseKeyAlgorithm reads a key_algorithm; empty means the default. The error's
// text is public and lists the accepted values.
func ParseKeyAlgorithm(text string) (KeyAlgorithm, error) {
	switch algorithm := KeyAlgorithm(text); algorithm {
	case "":
		return AlgorithmECDSA, nil
	case AlgorithmECDSA, AlgorithmECDSAP384, AlgorithmRSA2048, AlgorithmRSA3072, AlgorithmRSA4096, AlgorithmEd25519:
		return algorithm, nil
	}
	return "", errors.New("must be ECDSA, ECDSA_P384, RSA_2048, RSA_3072, RSA_4096 or ED25519")
}

// GenerateKey makes a fresh private key.
func GenerateKey(algorithm KeyAlgorithm) (crypto.Signer, error) {
	var key crypto.Signer
	var err error
	switch algorithm {
	case AlgorithmECDSA:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case AlgorithmECDSAP384:
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case AlgorithmRSA2048:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case AlgorithmRSA3072:
		key, err = rsa.GenerateKey(rand.Reader, 3072)
	case AlgorithmRSA4096:
		key, err = rsa.GenerateKey(rand.Reader, 4096)
	case AlgorithmEd25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = errors.New("unknown algorithm")
	}
	if err != nil {
		return nil, fmt.Errorf("generate %s key: %w", algorithm, err)
	}
	return key, nil
}

// MarshalKey gives the key as PKCS#8 DER (RFC 5958), unencrypted: what is sealed
// at rest and encrypted for devices.
func MarshalKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("marshal private key: %w", err)
	}
	return der, nil
}

// KeyPEM gives PKCS#8 DER as PEM (RFC 7468 section 10).
func KeyPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// ParseKey reads one unencrypted private key as PKCS#8, SEC1 or PKCS#1, in DER or
// PEM, and refuses weak ones as [CheckPublicKey] does. PEM may hold certificates
// and EC PARAMETERS beside the key. The error's text is public and quotes nothing.
func ParseKey(data []byte) (crypto.Signer, error) {
	if len(data) > maxKeyText {
		return nil, fmt.Errorf("is larger than a private key can be (%d KiB)", maxKeyText>>10)
	}
	der := data
	if bytes.Contains(data, []byte("-----BEGIN")) {
		var err error
		if der, err = keyBlock(data); err != nil {
			return nil, err
		}
	}
	key, err := parseKeyDER(der)
	if err != nil {
		return nil, err
	}
	return key, CheckPublicKey(key.Public())
}

func keyBlock(data []byte) ([]byte, error) {
	var found []byte
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE", "EC PARAMETERS":
			continue
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("is encrypted; give the key without a passphrase")
		case "PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY":
		default:
			return nil, errors.New("holds a PEM block that is not a private key")
		}
		if block.Headers["DEK-Info"] != "" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, errors.New("is encrypted; give the key without a passphrase")
		}
		if found != nil {
			return nil, errors.New("holds more than one private key")
		}
		found = block.Bytes
	}
	if found == nil {
		return nil, errors.New("holds no private key in PEM")
	}
	return found, nil
}

func parseKeyDER(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("is a key that cannot sign")
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	// The parsers' own errors are not passed on: they may quote key material.
	return nil, errors.New("is not a private key in PKCS#8, SEC1 or PKCS#1 form")
}

// SameKey tells whether two public keys are one. Unknown kinds are never equal.
func SameKey(a, b crypto.PublicKey) bool {
	known, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && known.Equal(b)
}
