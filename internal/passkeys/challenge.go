package passkeys

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// purpose is what a challenge was made for.
type purpose string

const (
	toRegister purpose = "register"
	toLogin    purpose = "login"
	toStepUp   purpose = "step_up"
)

// challengeSize is in bytes; Web Authentication Level 2, section 13.4.3, wants
// at least 16.
const challengeSize = 32

// sessionBinding ties a challenge to the caller's session.
func sessionBinding(c *access.Caller) string { return fmt.Sprintf("session %d", c.SessionID) }

// browserBinding ties a challenge to the browser that holds the secret.
func browserBinding(secret string) string {
	return "browser " + hex.EncodeToString(seal.HashToken(secret))
}

// newChallenge makes a challenge within the limit of the hit.
func (s *Service) newChallenge(ctx context.Context, tx *sqldb.Tx, p purpose, boundTo string, hit ratelimit.Hit) (string, error) {
	if err := s.limiter.CountIn(ctx, tx, hit); err != nil {
		return "", err
	}
	challenge := seal.NewToken("", challengeSize)
	err := New(tx).insertChallenge(ctx, insertChallengeParams{
		Hash: seal.HashToken(challenge), Purpose: string(p), BoundTo: boundTo, ExpiresAt: s.now().Add(ceremonyTime).UnixMilli(),
	})
	if err != nil {
		return "", fmt.Errorf("store a challenge: %w", err)
	}
	return challenge, nil
}

func (s *Service) hitOfUser(userID int64) ratelimit.Hit {
	return ratelimit.Hit{Rule: ratelimit.ChallengesOfUser, Key: strconv.FormatInt(userID, 10), Max: s.challenges.Max, Window: s.challenges.Window}
}

func (s *Service) hitFromAddress(ctx context.Context) ratelimit.Hit {
	return ratelimit.Hit{
		Rule: ratelimit.ChallengesFromAddress, Key: ratelimit.AddressKey(web.ClientIP(ctx)), Max: s.challenges.Max, Window: s.challenges.Window,
	}
}

// stands reports, without using it up, whether the challenge is good: what is
// made up costs no write.
func (s *Service) stands(ctx context.Context, challenge string, p purpose, boundTo string) (bool, error) {
	n, err := New(s.db.Reader()).challengeStands(ctx, challengeStandsParams{
		Hash: seal.HashToken(challenge), Purpose: string(p), BoundTo: boundTo, Now: s.now().UnixMilli(),
	})
	if err != nil {
		return false, fmt.Errorf("look up a challenge: %w", err)
	}
	return n > 0, nil
}

// use takes the challenge away and reports whether it was good until now. Of
// several at once one gets it.
func (s *Service) use(ctx context.Context, tx *sqldb.Tx, challenge string, p purpose, boundTo string) (bool, error) {
	n, err := New(tx).useChallenge(ctx, useChallengeParams{
		Hash: seal.HashToken(challenge), Purpose: string(p), BoundTo: boundTo, Now: s.now().UnixMilli(),
	})
	if err != nil {
		return false, fmt.Errorf("use a challenge: %w", err)
	}
	return n > 0, nil
}

// browserCookie names the cookie that stands for the browser until it has a
// session; as a session cookie it is __Host- prefixed where that is possible.
const browserCookie = "certharbor_passkey"

// browser is the cookie with this secret, for the time of a ceremony. "" makes
// the browser forget it.
func (s *Service) browser(ctx context.Context, secret string) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // plain HTTP on loopback cannot have Secure cookies
		Name: browserCookie, Value: secret, Path: "/", MaxAge: int(ceremonyTime / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.https(ctx),
	}
	if cookie.Secure {
		cookie.Name = "__Host-" + browserCookie
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// browserSecret reads the cookie, "" when there is none.
func (s *Service) browserSecret(ctx context.Context) string {
	name := browserCookie
	if s.https(ctx) {
		name = "__Host-" + browserCookie
	}
	cookie, err := (&http.Request{Header: http.Header{"Cookie": web.Cookies(ctx)}}).Cookie(name)
	if err != nil || len(cookie.Value) != 43 {
		return ""
	}
	return cookie.Value
}

func (s *Service) https(ctx context.Context) bool {
	return web.OverTLS(ctx) || strings.HasPrefix(s.rp.origin, "https:")
}
