package devices

import (
	"context"
	"strconv"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

type deviceLoginInput struct {
	Body struct {
		_          struct{} `json:"-" additionalProperties:"true"`
		Action     string   `json:"action" doc:"device_start, device_poll or device_verify."`
		Scopes     []string `json:"scopes,omitempty" doc:"device_start."`
		Interval   *int64   `json:"interval,omitempty" doc:"device_start: seconds between polls, 5 by default."`
		ExpiresIn  *int64   `json:"expires_in,omitempty" doc:"device_start: lifetime of the codes, 30 to 3600 seconds, 900 by default."`
		Name       string   `json:"name,omitempty" maxLength:"200" doc:"device_start: what the device calls itself, shown to whoever approves."`
		Platform   string   `json:"platform,omitempty" maxLength:"200" doc:"device_start: what it runs on, shown too."`
		DeviceCode string   `json:"device_code,omitempty" maxLength:"200" doc:"device_poll."`
		UserCode   string   `json:"user_code,omitempty" maxLength:"200" doc:"device_verify: XXXX-XXXX."`
		Approve    *bool    `json:"approve,omitempty" doc:"device_verify: true by default."`
		DeviceID   any      `json:"device_id,omitempty" doc:"device_verify: the device of the user that asks: another key of it is good at once. device_poll: ignored."`
		PublicID   string   `json:"device_public_id,omitempty" maxLength:"200" doc:"device_start: what it will register as; the approval is good for that alone."`
		DevPK      string   `json:"dev_pk,omitempty" maxLength:"200" doc:"device_start: the key that it will register with, likewise."`
	}
}

// DeviceLoginAnswer is the union of the answers of the three actions.
type DeviceLoginAnswer struct {
	DeviceCode              string `json:"device_code,omitempty"`
	UserCode                string `json:"user_code,omitempty"`
	VerificationURI         string `json:"verification_uri,omitempty"`
	VerificationURIComplete string `json:"verification_uri_complete,omitempty"`
	Interval                int64  `json:"interval,omitempty" doc:"Seconds between polls."`
	ExpiresIn               int64  `json:"expires_in,omitempty" doc:"Seconds."`

	Status              string `json:"status,omitempty" doc:"device_poll: authorization_pending, slow_down, access_denied, expired or ready. device_verify: approved or denied."`
	RegistrationCode    string `json:"registration_code,omitempty" doc:"device_poll, ready: good for one registration."`
	RegistrationCodeTTL int64  `json:"registration_code_ttl,omitempty" doc:"Seconds."`
	UserID              int64  `json:"user_id,omitempty" doc:"device_poll, ready: who approved."`
}

func (s *Service) login(ctx context.Context, in *deviceLoginInput) (DeviceLoginAnswer, error) {
	b := &in.Body
	switch b.Action {
	case "device_start":
		started, err := s.StartLogin(ctx, LoginRequest{
			Scopes: b.Scopes, Interval: orDefault(b.Interval, defaultInterval), Lifetime: orDefault(b.ExpiresIn, defaultLifetime),
			Name: b.Name, Platform: b.Platform, PublicID: b.PublicID, DevPK: b.DevPK,
		})
		return DeviceLoginAnswer{
			DeviceCode: started.DeviceCode, UserCode: started.UserCode, VerificationURI: started.VerificationURI,
			VerificationURIComplete: started.VerificationURIComplete, Interval: started.Interval, ExpiresIn: started.ExpiresIn,
		}, err
	case "device_poll":
		poll, err := s.PollLogin(ctx, b.DeviceCode)
		return DeviceLoginAnswer{Status: poll.Status, RegistrationCode: poll.Code, RegistrationCodeTTL: poll.CodeTTL, UserID: poll.UserID}, err
	case "device_verify":
		deviceID, err := deviceIDOf(b.DeviceID)
		if err != nil {
			return DeviceLoginAnswer{}, err
		}
		return s.decide(ctx, Decision{UserCode: b.UserCode, Approve: b.Approve == nil || *b.Approve, DeviceID: deviceID})
	}
	return DeviceLoginAnswer{}, fault.Invalid("action", "must be device_start, device_poll or device_verify")
}

type waitingLoginInput struct {
	UserCode string `query:"user_code" required:"true" maxLength:"200" doc:"XXXX-XXXX, as the device shows it."`
}

func (s *Service) waiting(ctx context.Context, in *waitingLoginInput) (WaitingLogin, error) {
	return s.WaitingLogin(ctx, access.From(ctx).UserID, in.UserCode)
}

// deviceIDOf reads an id, which agents also send as text.
func deviceIDOf(value any) (int64, error) {
	switch v := value.(type) {
	case nil:
		return 0, nil
	case float64:
		if id := int64(v); float64(id) == v && id > 0 && id < 1<<53 {
			return id, nil
		}
	case string:
		if id, err := strconv.ParseInt(v, 10, 64); err == nil && id > 0 {
			return id, nil
		}
	}
	return 0, fault.Invalid("device_id", "must be the id of one of your devices")
}

func (s *Service) decide(ctx context.Context, d Decision) (DeviceLoginAnswer, error) {
	caller := access.From(ctx)
	if caller == nil {
		return DeviceLoginAnswer{}, fault.Unauthorized("Sign in first: device_verify needs a session.")
	}
	if err := s.VerifyLogin(ctx, caller.UserID, d); err != nil {
		return DeviceLoginAnswer{}, err
	}
	if d.Approve {
		return DeviceLoginAnswer{Status: "approved"}, nil
	}
	return DeviceLoginAnswer{Status: "denied"}, nil
}

func orDefault(value *int64, otherwise int64) int64 {
	if value == nil {
		return otherwise
	}
	return *value
}

type refreshInput struct {
	Body *RefreshTokenRequest
}

// RefreshTokenRequest is empty for a session. Other members are ignored: agents
// may be newer than the server, or older, as those that send a request_id.
type RefreshTokenRequest struct {
	_            struct{} `json:"-" additionalProperties:"true"`
	RefreshToken string   `json:"refresh_token,omitempty" doc:"Of a device, which needs it; a session sends an empty body."`
}

// RefreshTokenAnswer holds a device's tokens twice, because some readers look only in
// session and others only beside it (wire.md section 3); a session's answer says
// that it goes on.
type RefreshTokenAnswer struct {
	AccessToken   string        `json:"access_token,omitempty"`
	RefreshToken  string        `json:"refresh_token,omitempty"`
	TokenType     string        `json:"token_type,omitempty"`
	ExpiresIn     int64         `json:"expires_in,omitempty" doc:"Seconds."`
	Session       *DeviceTokens `json:"session,omitempty"`
	Authenticated bool          `json:"authenticated,omitempty" doc:"A session was refreshed; the cookie is new."`
}

func (s *Service) refresh(ctx context.Context, in *refreshInput) (*web.Reply[RefreshTokenAnswer], error) {
	if in.Body != nil && in.Body.RefreshToken != "" {
		t, err := s.Refresh(ctx, in.Body.RefreshToken)
		if err != nil {
			return nil, err
		}
		return &web.Reply[RefreshTokenAnswer]{Data: RefreshTokenAnswer{
			AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, TokenType: t.TokenType, ExpiresIn: t.ExpiresIn, Session: &t,
		}}, nil
	}
	if in.Body != nil && len(web.Cookies(ctx)) == 0 { // a device, not a browser whose session has ended
		return nil, fault.Invalid("refresh_token", "is needed; a session sends its cookie instead")
	}
	if s.Sessions == nil || access.From(ctx) == nil {
		return nil, fault.Unauthorized("Send the refresh_token of a device, or the cookie of a session.")
	}
	cookies, err := s.Sessions.RefreshSession(ctx)
	if err != nil {
		return nil, err
	}
	return &web.Reply[RefreshTokenAnswer]{Data: RefreshTokenAnswer{Authenticated: true}, Cookies: cookies}, nil
}
