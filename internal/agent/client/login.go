package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Flow is a device login that was started (RFC 8628 in the shape of wire.md 3).
type Flow struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	Interval                int64  `json:"interval"`   // seconds
	ExpiresIn               int64  `json:"expires_in"` // seconds
}

// Poll is the state of a Flow. Status ready brings the other members.
type Poll struct {
	Status           string `json:"status"`
	RegistrationCode string `json:"registration_code"`
	UserID           int64  `json:"user_id"`
}

// Registration is the body of the registration doors (wire.md 4). UserID and
// RegistrationCode stay empty at the API-key door.
type Registration struct {
	UserID           int64  `json:"user_id,omitempty"`
	RegistrationCode string `json:"registration_code,omitempty"`
	DevicePublicID   string `json:"device_public_id"`
	DevPK            string `json:"dev_pk"`
	Platform         string `json:"platform,omitempty"`
	Model            string `json:"model,omitempty"`
	AppVersion       string `json:"app_version,omitempty"`
	Name             string `json:"name,omitempty"`
	UserAgent        string `json:"user_agent,omitempty"`
}

// Registered is the answer of the registration doors.
type Registered struct {
	Device struct {
		ID             int64  `json:"id"`
		UserID         int64  `json:"user_id"`
		DevicePublicID string `json:"device_public_id"`
		Name           string `json:"name"`
		Status         string `json:"status"`
	} `json:"device"`
	Session Tokens `json:"session"`
}

// StartFlow begins a device login that may take fifteen minutes. What self says
// is shown to whoever is to approve it.
func (c *Client) StartFlow(ctx context.Context, self Registration) (*Flow, error) {
	const op = "start device login"
	a, err := c.do(ctx, request{op: op, method: http.MethodPost, path: "/auth/device",
		body: map[string]any{
			"action": "device_start", "interval": 5, "expires_in": 900, "name": self.Name, "platform": self.Platform,
			"device_public_id": self.DevicePublicID, "dev_pk": self.DevPK, // so that the approval is for this device and key
		}})
	if err != nil {
		return nil, err
	}
	var flow Flow
	if err := a.into(op, &flow); err != nil {
		return nil, err
	}
	if flow.DeviceCode == "" || flow.UserCode == "" || flow.Interval <= 0 || flow.ExpiresIn <= 0 {
		return nil, &Unavailable{Op: op, Answered: true, Err: errors.New("the answer lacks a code, an interval or an expiry")}
	}
	return &flow, nil
}

// PollFlow asks once how a device login stands.
func (c *Client) PollFlow(ctx context.Context, flow *Flow) (*Poll, error) {
	const op = "wait for approval"
	a, err := c.do(ctx, request{op: op, method: http.MethodPost, path: "/auth/device",
		body: map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}})
	if err != nil {
		return nil, err
	}
	var poll Poll
	if err := a.into(op, &poll); err != nil {
		return nil, err
	}
	return &poll, nil
}

// Register presents a registration code at the door without credentials.
func (c *Client) Register(ctx context.Context, r Registration) (*Registered, error) {
	return c.register(ctx, "register device", "/apiv1/device/registration", "", r)
}

// RegisterWithKey registers at the API-key door; apiKey starts with "ak_".
func (c *Client) RegisterWithKey(ctx context.Context, apiKey string, r Registration) (*Registered, error) {
	return c.register(ctx, "enroll device", "/apiv1/me/devices", apiKey, r)
}

func (c *Client) register(ctx context.Context, op, path, token string, r Registration) (*Registered, error) {
	a, err := c.do(ctx, request{op: op, method: http.MethodPost, path: path, token: token, body: r})
	if err != nil {
		return nil, err
	}
	var done Registered
	if err := a.into(op, &done); err != nil {
		return nil, err
	}
	if done.Device.ID <= 0 || done.Session.AccessToken == "" || done.Session.RefreshToken == "" {
		return nil, &Unavailable{Op: op, Answered: true, Err: errors.New("the answer lacks the device or its tokens")}
	}
	return &done, nil
}

// Tokens is a token pair as registration and refresh answer it.
type Tokens struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
}

// ExpiresAt gives when the access token ends, by this machine's clock. The
// token's own `exp` counts, unless that is so far from `expires_in` that the
// clocks of server and device must differ.
func (t Tokens) ExpiresAt(now time.Time) time.Time {
	byLifetime := now.Add(time.Duration(t.ExpiresIn) * time.Second)
	exp, ok := claimedExpiry(t.AccessToken)
	if !ok {
		return byLifetime
	}
	if t.ExpiresIn > 0 && exp.Sub(byLifetime).Abs() > 5*time.Minute {
		return byLifetime
	}
	return exp
}

// refresh trades a refresh token for a new pair; the old one is dead then, but
// for the same call again while nobody has used the pair.
func (c *Client) refresh(ctx context.Context, token, requestID string) (*Tokens, error) {
	const op = "refresh access token"
	a, err := c.do(ctx, request{op: op, method: http.MethodPost, path: "/auth/refresh",
		body: map[string]string{"refresh_token": token, "request_id": requestID}})
	if err != nil {
		return nil, err
	}
	var got struct {
		Tokens
		Session Tokens `json:"session"`
	}
	if err := a.into(op, &got); err != nil {
		return nil, err
	}
	if got.Session.AccessToken != "" {
		got.Tokens = got.Session
	}
	if got.AccessToken == "" || got.RefreshToken == "" {
		return nil, &Unavailable{Op: op, Answered: true, Err: errors.New("the answer lacks a token")}
	}
	return &got.Tokens, nil
}
