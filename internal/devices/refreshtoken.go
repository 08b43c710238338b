package devices

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"certharbor.dev/certharbor/internal/seal"
)

const (
	refreshPrefix = "rt_"
	lookupSize    = 32  // characters
	maxRefresh    = 256 // characters of a token worth hashing
)

// newRefreshToken returns rt_<lookup>.<secret>: lookup finds the row, the whole
// token has to match its hash. The secret has 256 random bits.
func newRefreshToken() (token, lookup string) {
	var b [lookupSize / 2]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	lookup = hex.EncodeToString(b[:])
	return refreshPrefix + lookup + seal.NewToken(".", 32), lookup
}

// parseRefreshToken returns the lookup part of what may be a refresh token.
func parseRefreshToken(token string) (lookup string, ok bool) {
	rest, ok := strings.CutPrefix(token, refreshPrefix)
	if !ok || len(token) > maxRefresh {
		return "", false
	}
	lookup, secret, ok := strings.Cut(rest, ".")
	if !ok || len(lookup) != lookupSize || secret == "" {
		return "", false
	}
	for i := range len(lookup) {
		if c := lookup[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return lookup, true
}
