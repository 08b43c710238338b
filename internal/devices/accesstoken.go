package devices

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

const (
	audience  = "certharbor-device"
	accessUse = "device-access" // so that no other token under the same keys passes
	maxToken  = 4096            // bytes of a token worth reading
)

// claims are those of wire.md section 2 and what ties a token to its family.
type claims struct {
	jwt.RegisteredClaims
	DeviceID  int64  `json:"device_id,omitempty"`
	SessionNo int64  `json:"session_no"`
	Pair      int64  `json:"pair,omitempty"` // the refresh token it came with
	Use       string `json:"token_use"`
}

// DeviceTokens is what a device gets when it registers or refreshes.
type DeviceTokens struct {
	AccessToken  string `json:"access_token" doc:"A JWT that names the device."`
	RefreshToken string `json:"refresh_token" doc:"Good for one refresh within 30 days."`
	TokenType    string `json:"token_type" enum:"Bearer"`
	ExpiresIn    int64  `json:"expires_in" doc:"Lifetime of the access token in seconds."`
}

// sign makes the access token of a pair of the device's family sessionNo.
func (s *Service) sign(keys *signingKeys, d deviceRow, sessionNo, pair int64, now time.Time) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject:   strconv.FormatInt(d.UserID, 10),
			Audience:  jwt.ClaimStrings{audience},
			IssuedAt:  jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(s.AccessTTL)),
		},
		DeviceID: d.ID, SessionNo: sessionNo, Pair: pair, Use: accessUse,
	})
	token.Header["kid"] = keys.newest
	signed, err := token.SignedString(keys.byKID[keys.newest])
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}
	return signed, nil
}

// verified is an access token whose signature and claims hold.
type verified struct {
	caller    access.Caller
	waiting   access.Caller // the same, while the key of its family waits
	sessionNo int64
	pair      int64
	settled   atomic.Bool // the pair is known to be used, see settle
	expires   int64       // Unix s
}

var (
	errToken    = fault.Unauthorized("The device token is not valid or has expired; refresh it.")
	errNoDevice = fault.Invalid("device_id", "is missing in the device token")
)

// verify checks signature, expiry, audience and type, from memory when the same
// token was verified before.
func (s *Service) verify(ctx context.Context, token string, now time.Time) (*verified, error) {
	if len(token) > maxToken {
		return nil, errToken
	}
	hash := sha256.Sum256([]byte(token))
	v, ok := s.verified.get(hash)
	if !ok {
		var err error
		if v, err = s.parse(ctx, token, now); err != nil {
			return nil, err
		}
		s.verified.put(hash, v)
	}
	if now.Unix() >= v.expires {
		return nil, errToken
	}
	return v, nil
}

func (s *Service) parse(ctx context.Context, token string, now time.Time) (*verified, error) {
	if strings.ContainsAny(token, "\r\n") { // which base64 decoding passes over
		return nil, errToken
	}
	var c claims
	var trouble error // ours, not the token's
	_, err := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithAudience(audience),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
	).ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		key, err := s.signer.key(ctx, kid)
		if err != nil {
			trouble = err
			return nil, err
		}
		if key == nil {
			return nil, errUnknownKey
		}
		return key, nil
	})
	if trouble != nil {
		return nil, fmt.Errorf("verify device token: %w", trouble)
	}
	if err != nil || c.Use != accessUse {
		return nil, errToken
	}
	userID, err := strconv.ParseInt(c.Subject, 10, 64)
	if err != nil {
		return nil, errToken
	}
	caller := access.Caller{Kind: access.KindDevice, UserID: userID, DeviceID: c.DeviceID}
	waiting := caller
	waiting.KeyWaits = true
	return &verified{
		caller: caller, waiting: waiting,
		sessionNo: c.SessionNo, pair: c.Pair, expires: c.ExpiresAt.Unix(),
	}, nil
}

var errUnknownKey = errors.New("no such signing key")
