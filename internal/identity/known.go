package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"

	"certharbor.dev/certharbor/internal/web"
)

// A known browser is one that has signed in to an account. It holds a cookie for
// it: a random id and an HMAC of the id, the user and the hash of the password,
// so that a new password makes all others strangers. It proves nothing but that:
// past the limits on guesses its tries are still looked at, few and counted by
// its id.
const (
	knownCookie = "certharbor_known_"
	knownID     = 16 // bytes
)

// knownKey is the key of the cookies, which all nodes share; nil where there is
// none yet, and no browser is known.
func (s *Service) knownKey() []byte {
	if key := s.codeKeys.had(); key != nil {
		return knownMAC(key, "key of known browsers", 0, "")
	}
	return nil
}

func knownMAC(key []byte, what string, userID int64, password string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(userID))) //nolint:gosec // ids are positive
	mac.Write([]byte(what + "\x00" + password))
	return mac.Sum(nil)
}

// knownName is that of the cookie for the user; a browser has one per account.
func (s *Service) knownName(key []byte, userID int64, secure bool) string {
	name := knownCookie + hex.EncodeToString(knownMAC(key, "name", userID, "")[:6])
	if secure {
		return hostPrefix + name
	}
	return name
}

// knownBrowser gives the id of the browser that has signed in to the user's
// account before, or "". It does the same work for a user who does not exist.
func (s *Service) knownBrowser(ctx context.Context, userID int64, password string) string {
	headers, key := web.Cookies(ctx), s.knownKey()
	if len(headers) == 0 || key == nil {
		return ""
	}
	name := s.knownName(key, userID, s.cookies.https || web.OverTLS(ctx))
	value, err := base64.RawURLEncoding.DecodeString(readCookie(headers, name))
	if err != nil || len(value) != knownID+sha256.Size {
		return ""
	}
	id := string(value[:knownID])
	if userID == 0 || !hmac.Equal(value[knownID:], knownMAC(key, "id "+id, userID, password)) {
		return ""
	}
	return hex.EncodeToString(value[:knownID])
}

// remember is the cookie that makes the browser known to the user's account, as a
// list of at most one. A browser that is known keeps its id.
func (s *Service) remember(ctx context.Context, userID int64, password string) []*http.Cookie {
	key := s.knownKey()
	if key == nil {
		return nil
	}
	id := make([]byte, knownID)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	if known, err := hex.DecodeString(s.knownBrowser(ctx, userID, password)); err == nil && len(known) == knownID {
		id = known
	}
	cookie := s.cookies.set("", web.OverTLS(ctx)) //nolint:gosec // as there
	cookie.Name = s.knownName(key, userID, cookie.Secure)
	cookie.Value = base64.RawURLEncoding.EncodeToString(slices.Concat(id, knownMAC(key, "id "+string(id), userID, password)))
	return []*http.Cookie{cookie}
}
