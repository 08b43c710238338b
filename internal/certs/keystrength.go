package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
)

const (
	minRSABits     = 2048
	maxRSABits     = 8192 // larger ones only cost time to check
	minRSAExponent = 65537
	// fermatRounds is how far to search for primes that stand close together;
	// CAs that check use about 100 (CVE-2022-26320).
	fermatRounds = 100
)

// CheckPublicKey refuses keys that no CA should sign: RSA outside 2048 to 8192
// bits, with an exponent below 65537 or a modulus that falls to trial division
// or Fermat's method, curves other than P-256 and P-384, and unknown kinds. The
// error's text is public.
func CheckPublicKey(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
		return errors.New("is an ECDSA key on a curve other than P-256 and P-384")
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		return checkRSA(key)
	}
	return errors.New("is neither an ECDSA, an RSA nor an Ed25519 key")
}

func checkRSA(key *rsa.PublicKey) error {
	if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
		return fmt.Errorf("is an RSA key of %d bits; %d to %d are accepted", bits, minRSABits, maxRSABits)
	}
	if key.E < minRSAExponent || key.E%2 == 0 {
		return fmt.Errorf("is an RSA key with the exponent %d; it must be odd and at least %d", key.E, minRSAExponent)
	}
	if hasSmallFactor(key.N) || hasClosePrimes(key.N) {
		return errors.New("is an RSA key whose modulus is easy to factor")
	}
	return nil
}

// hasSmallFactor tries every number below 752, the bound that CAs use: a
// composite divides only where one of its primes does.
func hasSmallFactor(n *big.Int) bool {
	rest := new(big.Int)
	for divisor := int64(2); divisor < 752; divisor++ {
		if rest.Mod(n, big.NewInt(divisor)).Sign() == 0 {
			return true
		}
	}
	return false
}

// hasClosePrimes is Fermat's method: n = a²-b² for a near the root of n.
func hasClosePrimes(n *big.Int) bool {
	one := big.NewInt(1)
	a := new(big.Int).Sqrt(n)
	if new(big.Int).Mul(a, a).Cmp(n) < 0 {
		a.Add(a, one)
	}
	for range fermatRounds {
		b2 := new(big.Int).Mul(a, a)
		b2.Sub(b2, n)
		b := new(big.Int).Sqrt(b2)
		if b.Mul(b, b).Cmp(b2) == 0 {
			return true
		}
		a.Add(a, one)
	}
	return false
}

// AlgorithmOf names the algorithm of a public key that [CheckPublicKey] accepts.
// RSA sizes between the named ones count as the next smaller.
func AlgorithmOf(public crypto.PublicKey) (KeyAlgorithm, error) {
	if err := CheckPublicKey(public); err != nil {
		return "", err
	}
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P384() {
			return AlgorithmECDSAP384, nil
		}
		return AlgorithmECDSA, nil
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits >= 4096:
			return AlgorithmRSA4096, nil
		case bits >= 3072:
			return AlgorithmRSA3072, nil
		}
		return AlgorithmRSA2048, nil
	}
	return AlgorithmEd25519, nil
}
