package passkeys

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"certharbor.dev/certharbor/internal/fault"
)

const (
	// MaxPerUser is how many passkeys one user can have.
	MaxPerUser = 20

	defaultName  = "Passkey"
	maxName      = 200 // characters
	maxID        = 1023
	minRSABits   = 2048
	maxRSABits   = 4096
	maxTransport = 32 // characters of one hint
)

// Passkey is a credential as its owner sees it.
type Passkey struct {
	ID           int64    `json:"id"`
	Name         string   `json:"name" doc:"What the owner calls it."`
	CredentialID string   `json:"credential_id" doc:"The authenticator's own id, base64url."`
	Algorithm    string   `json:"algorithm" doc:"ES256, EdDSA or RS256."`
	AAGUID       string   `json:"aaguid" doc:"The model of the authenticator; all zero when it does not tell."`
	Transports   []string `json:"transports" doc:"How browsers reach it: internal, hybrid, usb and others."`
	Synced       bool     `json:"synced" doc:"Whether it is copied between devices of its owner."`
	CloneWarning bool     `json:"clone_warning" doc:"Its signature counter went back once: there may be a copy of it. Remove it if that is not explained."`
	CreatedAt    int64    `json:"created_at" doc:"Unix ms."`
	LastUsedAt   int64    `json:"last_used_at" doc:"Unix ms, 0: never."`
}

// algorithms are those that are offered, best first: COSE numbers (RFC 9053).
var algorithms = []webauthncose.COSEAlgorithmIdentifier{ //nolint:gochecknoglobals // never changed
	webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256,
}

func algorithmName(number int64) string {
	switch webauthncose.COSEAlgorithmIdentifier(number) {
	case webauthncose.AlgES256:
		return "ES256"
	case webauthncose.AlgEdDSA:
		return "EdDSA"
	case webauthncose.AlgRS256:
		return "RS256"
	default: // nothing else is stored
		return ""
	}
}

// methods names how a user signed in with a passkey, as RFC 8176 has it. Without
// attestation nobody knows where the key is: one that its owner's devices share
// is in software, of any other we believe that hardware holds it. "mfa" because
// every ceremony demands user verification.
func methods(flags protocol.AuthenticatorFlags) []string {
	if flags.HasBackupEligible() {
		return []string{"swk", "user", "mfa"}
	}
	return []string{"hwk", "user", "mfa"}
}

// cleanName gives the name that the owner chose, or the default.
func cleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return defaultName, nil
	}
	if utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.Invalid("name", "must be at most %d characters and hold no control characters", maxName)
	}
	return name, nil
}

// checkKey gives the algorithm of a key and refuses what go-webauthn lets pass:
// an algorithm that does not belong to the kind of key, and RSA keys that are
// weak, or so large that each check of a signature costs too much.
func checkKey(coseKey []byte) (algorithm int64, err error) {
	key, err := webauthncose.ParsePublicKey(coseKey)
	if err != nil {
		return 0, errors.New("it cannot be read")
	}
	var belongs webauthncose.COSEAlgorithmIdentifier
	switch key := key.(type) {
	case webauthncose.EC2PublicKeyData:
		algorithm, belongs = key.Algorithm, webauthncose.AlgES256
	case webauthncose.OKPPublicKeyData:
		algorithm, belongs = key.Algorithm, webauthncose.AlgEdDSA
	case webauthncose.RSAPublicKeyData:
		algorithm, belongs = key.Algorithm, webauthncose.AlgRS256
		if bits := new(big.Int).SetBytes(key.Modulus).BitLen(); bits < minRSABits || bits > maxRSABits {
			return 0, fmt.Errorf("RSA of %d bits instead of %d to %d", bits, minRSABits, maxRSABits)
		}
	}
	if belongs == 0 || algorithm != int64(belongs) {
		return 0, errors.New("not one of ES256, EdDSA and RS256")
	}
	return algorithm, nil
}
