package providers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// purpose is what an attempt was begun for.
type purpose string

const (
	toSignIn purpose = "sign_in"
	toBind   purpose = "bind"
)

// attempt is a sign-in or a binding that was begun.
type attempt struct {
	provider  string
	purpose   purpose
	sessionID int64 // that binds
	returnTo  string
	expiresAt int64 // Unix ms
}

// refusal is the action of the audit log.
func (a attempt) refusal() string {
	if a.purpose == toBind {
		return "user.bind_refused"
	}
	return "session.sign_in_refused"
}

const (
	attemptTime = 10 * time.Minute
	walletTime  = 5 * time.Minute
	secretSize  = 32 // bytes
)

func errAttempt() *fault.Error {
	return fault.Unauthorized("This was not begun in this browser, or it has been used or taken too long; begin it again.")
}

// derive gives a value of 256 bits that belongs to the browser's secret and the
// text alone, so that nothing of it need be stored.
func derive(secret, what, text string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(what + " " + text))
	return mac.Sum(nil)
}

// shared are the secrets of an attempt of the browser with the secret.
func (s *Service) shared(info Info, secret, state string) secrets {
	return secrets{
		state: state, callback: s.origin + info.URL + "/callback",
		verifier: base64.RawURLEncoding.EncodeToString(derive(secret, "verifier", state)),
		nonce:    base64.RawURLEncoding.EncodeToString(derive(secret, "nonce", state)),
	}
}

// newState is 256 random bits in the characters that every provider takes:
// Weixin's documentation allows letters and digits alone.
func newState() string {
	state := make([]byte, secretSize)
	_, _ = rand.Read(state) // never fails, see crypto/rand
	return hex.EncodeToString(state)
}

// store keeps a new attempt of the browser with the secret under the digest of
// the key, within the limits.
func (s *Service) store(ctx context.Context, tx *sqldb.Tx, a attempt, key, secret string) error {
	if err := s.limiter.CountIn(ctx, tx, s.hit(ctx, a.purpose)); err != nil {
		return err
	}
	err := New(tx).insertAttempt(ctx, insertAttemptParams{
		Hash: seal.HashToken(key), Provider: a.provider, Purpose: string(a.purpose), Browser: seal.HashToken(secret),
		SessionID: a.sessionID, ReturnTo: a.returnTo, ExpiresAt: a.expiresAt,
	})
	if err != nil {
		return fmt.Errorf("store an attempt: %w", err)
	}
	return nil
}

func (s *Service) hit(ctx context.Context, p purpose) ratelimit.Hit {
	h := ratelimit.Hit{Rule: ratelimit.AttemptsFromAddress, Key: ratelimit.AddressKey(web.ClientIP(ctx)), Max: s.attempts.Max, Window: s.attempts.Window}
	if p == toBind {
		h.Rule, h.Key = ratelimit.AttemptsOfUser, strconv.FormatInt(access.From(ctx).UserID, 10)
	}
	return h
}

// take uses up the attempt of the key and gives it when it is this browser's,
// good until now, for the provider, and of the session that began it. What is
// unknown costs no write; every other refusal is recorded.
func (s *Service) take(ctx context.Context, info Info, key, secret string) (attempt, error) {
	hash := seal.HashToken(key)
	n, err := New(s.db.Reader()).attemptExists(ctx, hash)
	if err != nil {
		return attempt{}, fmt.Errorf("look up an attempt: %w", err)
	}
	if n == 0 {
		return attempt{}, errAttempt()
	}
	var a attempt
	var reason string
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := New(tx).takeAttempt(ctx, hash)
		if sqldb.Is(err, sqldb.ErrNotFound) { // somebody else was faster
			return errAttempt()
		}
		if err != nil {
			return fmt.Errorf("take an attempt: %w", err)
		}
		a = attempt{provider: row.Provider, purpose: purpose(row.Purpose), sessionID: row.SessionID, returnTo: row.ReturnTo, expiresAt: row.ExpiresAt}
		caller := access.From(ctx)
		switch reason = ""; {
		case !bytes.Equal(row.Browser, seal.HashToken(secret)):
			reason = "it was begun in another browser"
		case a.provider != info.Provider:
			reason = "it was begun at another provider"
		case a.expiresAt <= s.now().UnixMilli():
			reason = "it is too late"
		case a.purpose == toBind && (caller == nil || caller.SessionID != a.sessionID):
			reason = "it was begun in another session"
		default:
			return nil
		}
		return s.recordRefusal(ctx, tx, a, 0, reason)
	})
	if err == nil && reason != "" {
		err = errAttempt().Because(fmt.Errorf("attempt at %s: %s", info.Provider, reason))
	}
	return a, err
}

// recordRefusal writes to the log of the user, or of the caller when nobody is
// known.
func (s *Service) recordRefusal(ctx context.Context, tx *sqldb.Tx, a attempt, userID int64, reason string) error {
	if caller := access.From(ctx); userID == 0 && a.purpose == toBind && caller != nil {
		userID = caller.UserID
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: userID, Action: a.refusal(), Object: object(a.provider), Detail: map[string]any{"reason": reason, "ip": web.ClientIP(ctx)},
	})
}

// refuse records why in a transaction of its own and returns the cause.
func (s *Service) refuse(ctx context.Context, a attempt, cause error) error {
	reason := cause.Error()
	if f := fault.As(cause); f != nil {
		if reason = f.What; f.Err != nil {
			reason = shown(f.Err.Error())
		}
	}
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error { return s.recordRefusal(ctx, tx, a, 0, reason) })
	if err != nil {
		s.log.ErrorContext(ctx, "a refusal was not recorded", "error", err, "request_id", web.RequestID(ctx))
	}
	return cause
}

func object(provider string) string { return "provider " + provider }

// The cookies that stand for a browser while it signs in. The one for providers
// has to come along when they send the browser back; the wallet's has not.
const (
	loginCookie  = "certharbor_login"
	walletCookie = "certharbor_wallet"
)

// browser is the cookie with this secret. "" makes the browser forget it.
func (s *Service) browser(ctx context.Context, name, secret string) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // plain HTTP on loopback cannot have Secure cookies
		Name: s.cookieName(ctx, name), Value: secret, Path: "/", MaxAge: int(attemptTime / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.https(ctx),
	}
	if name == walletCookie {
		cookie.MaxAge, cookie.SameSite = int(walletTime/time.Second), http.SameSiteStrictMode
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// browserSecret reads the cookie, "" when there is none.
func (s *Service) browserSecret(ctx context.Context, name string) string {
	cookie, err := (&http.Request{Header: http.Header{"Cookie": web.Cookies(ctx)}}).Cookie(s.cookieName(ctx, name))
	if err != nil || len(cookie.Value) != base64.RawURLEncoding.EncodedLen(secretSize) {
		return ""
	}
	return cookie.Value
}

func (s *Service) cookieName(ctx context.Context, name string) string {
	if s.https(ctx) {
		return "__Host-" + name
	}
	return name
}
