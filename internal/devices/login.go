package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// The states of a device login.
const (
	loginPending  = "PENDING"
	loginApproved = "APPROVED"
	loginDenied   = "DENIED"
)

// The answers to a poll (wire.md section 3).
const (
	pollPending  = "authorization_pending"
	pollSlowDown = "slow_down"
	pollDenied   = "access_denied"
	pollExpired  = "expired"
	pollReady    = "ready"
)

const (
	defaultInterval = 5   // seconds
	maxInterval     = 300 // seconds
	defaultLifetime = 900 // seconds
	maxScopes       = 64
)

// LoginStarted is what a device shows and polls with (RFC 8628 section 3.2).
type LoginStarted struct {
	DeviceCode              string
	UserCode                string
	VerificationURI         string
	VerificationURIComplete string
	Interval                int64 // s
	ExpiresIn               int64 // s
}

// LoginRequest is what a device says when it begins a login.
type LoginRequest struct {
	Scopes         []string
	Interval       int64  // least number of seconds between polls
	Lifetime       int64  // how many seconds the codes are good
	Name, Platform string // what it calls itself, for whoever approves; may be empty
	PublicID       string // device_public_id that it will register with; may be empty
	DevPK          string // and its key; may be empty
}

func (r LoginRequest) check() error {
	if err := checkScopes(r.Scopes); err != nil {
		return err
	}
	if r.Interval < 1 || r.Interval > maxInterval {
		return fault.Invalid("interval", "must be 1 to %d seconds", maxInterval)
	}
	if r.Lifetime < 30 || r.Lifetime > 3600 {
		return fault.Invalid("expires_in", "must be 30 to 3600 seconds")
	}
	return nil
}

// identity is what the device will register as, as far as it says so.
func (r LoginRequest) identity() (publicID string, key []byte, err error) {
	if r.PublicID != "" {
		if publicID, err = ParsePublicID(r.PublicID); err != nil {
			return "", nil, err
		}
	}
	if r.DevPK != "" {
		parsed, err := seal.ParseDeviceKey(r.DevPK)
		if err != nil {
			return "", nil, errDevPK
		}
		key = parsed[:]
	}
	return publicID, key, nil
}

// StartLogin begins a device login.
func (s *Service) StartLogin(ctx context.Context, r LoginRequest) (LoginStarted, error) {
	if err := r.check(); err != nil {
		return LoginStarted{}, err
	}
	publicID, key, err := r.identity()
	if err != nil {
		return LoginStarted{}, err
	}
	if err := s.countStart(ctx); err != nil {
		return LoginStarted{}, err
	}
	encoded, err := json.Marshal(append([]string{}, r.Scopes...)) // [] rather than null
	if err != nil {
		return LoginStarted{}, fmt.Errorf("encode scopes: %w", err)
	}
	now := s.Now()
	started := LoginStarted{DeviceCode: seal.NewToken("dc_", 32), Interval: r.Interval, ExpiresIn: r.Lifetime, VerificationURI: s.BaseURL + "/device"}
	for range 5 { // a user code may be taken
		started.UserCode = newUserCode()
		err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			return New(tx).insertLogin(ctx, insertLoginParams{
				DeviceCodeHash: seal.HashToken(started.DeviceCode), UserCodeHash: seal.HashToken(started.UserCode), Scopes: string(encoded),
				Name: r.Name, Platform: r.Platform, ClientIp: web.ClientIP(ctx), UserAgent: web.UserAgent(ctx),
				PublicID: publicID, PublicKey: key, IntervalS: r.Interval, Now: now.UnixMilli(), ExpiresAt: now.Add(time.Duration(r.Lifetime) * time.Second).UnixMilli(),
			})
		})
		if !sqldb.Is(err, sqldb.ErrConflict) {
			break
		}
	}
	if err != nil {
		return LoginStarted{}, fmt.Errorf("start device login: %w", err)
	}
	started.VerificationURIComplete = started.VerificationURI + "?user_code=" + started.UserCode
	return started, nil
}

func checkScopes(scopes []string) error {
	if len(scopes) > maxScopes {
		return fault.Invalid("scopes", "must be at most %d", maxScopes)
	}
	for _, scope := range scopes {
		if scope == "" || len(scope) > 200 {
			return fault.Invalid("scopes", "must be strings of 1 to 200 characters")
		}
	}
	return nil
}

// Poll is what a login has come to.
type Poll struct {
	Status  string
	Code    string // the registration code, when ready
	CodeTTL int64  // s
	UserID  int64
}

// PollLogin tells a device whether its login was approved. Once it is ready,
// polling again answers the same code until that is used or expires
// (decisions.md 7.5). An unknown device code is 5000.
func (s *Service) PollLogin(ctx context.Context, deviceCode string) (Poll, error) {
	if deviceCode == "" {
		return Poll{}, fault.Invalid("device_code", "is needed")
	}
	login, err := New(s.DB.Reader()).loginByDeviceCode(ctx, seal.HashToken(deviceCode))
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Poll{}, s.wrongCode(ctx, errWrongDeviceCode)
	}
	if err != nil {
		return Poll{}, fmt.Errorf("read device login: %w", err)
	}
	switch {
	case login.Status == loginDenied:
		return Poll{Status: pollDenied}, nil
	case login.Status == loginApproved:
		return s.ready(ctx, login)
	case login.ExpiresAt <= s.Now().UnixMilli():
		return Poll{Status: pollExpired}, nil
	}
	return s.pending(ctx, login)
}

// pending asks a device to slow down when it polls before its interval is over,
// less a tenth for the jitter of networks. The interval stays as it was: agents
// go on with the one they know.
func (s *Service) pending(ctx context.Context, login loginRow) (Poll, error) {
	now := s.Now().UnixMilli()
	if now-login.PolledAt < login.IntervalS*900 {
		return Poll{Status: pollSlowDown}, nil
	}
	var marked int64
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		marked, err = New(tx).markPolled(ctx, markPolledParams{Now: now, ID: login.ID, Was: login.PolledAt})
		return err
	})
	if err != nil {
		return Poll{}, fmt.Errorf("record poll: %w", err)
	}
	if marked == 0 { // another poll was faster
		return Poll{Status: pollSlowDown}, nil
	}
	return Poll{Status: pollPending}, nil
}

func (s *Service) ready(ctx context.Context, login loginRow) (Poll, error) {
	code, err := New(s.DB.Reader()).codeOfLogin(ctx, login.ID)
	if err != nil {
		return Poll{}, fmt.Errorf("read registration code: %w", err)
	}
	left := time.UnixMilli(code.ExpiresAt).Sub(s.Now())
	if code.UsedAt.Valid || left <= 0 {
		return Poll{Status: pollExpired}, nil
	}
	opened, err := s.Keyring.Open(codePlace(code.ID), code.CodeSealed)
	if err != nil {
		return Poll{}, fmt.Errorf("open registration code: %w", err)
	}
	ttl := int64((left + time.Second - 1) / time.Second)
	return Poll{Status: pollReady, Code: string(opened), CodeTTL: ttl, UserID: code.UserID}, nil
}

func codePlace(id int64) seal.Place {
	return seal.Place{Table: "registration_codes", Row: id, Column: "code_sealed"}
}
