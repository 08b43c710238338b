package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// NewToken gives a bearer secret: the prefix and size random bytes in base64url
// without padding, so 32 bytes become 43 characters.
func NewToken(prefix string, size int) string {
	secret := make([]byte, size)
	rand.Read(secret) //nolint:errcheck // crypto/rand.Read never returns an error, it ends the program
	return prefix + base64.RawURLEncoding.EncodeToString(secret)
}

// HashToken gives the SHA-256 digest (32 bytes) under which a token is stored.
// A plain digest is enough because tokens carry at least 128 random bits.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// TokenMatches tells in constant time whether token has this stored hash.
func TokenMatches(token string, hash []byte) bool {
	return subtle.ConstantTimeCompare(HashToken(token), hash) == 1
}
