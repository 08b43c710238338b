package main

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
)

// device is an enrolled device.
type device struct {
	caller

	ID      int64
	Refresh string // the newest refresh token
}

// publicID is the device_public_id of the n-th device.
func publicID(n int64) string { return fmt.Sprintf("%08x-0000-0000-0000-000000000000", n) }

// enrol goes through device login and registration, also of a known device,
// which then has another key.
func (c caller) enrol(ctx context.Context, n int64) (*device, error) {
	anonymous := caller{server: c.server}
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	if err := anonymous.call(ctx, "POST", "/auth/device", map[string]any{"action": "device_start"}, http.StatusOK, &flow); err != nil {
		return nil, err
	}
	if err := c.call(ctx, "POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, http.StatusOK, nil); err != nil {
		return nil, err
	}
	var ready struct {
		Status           string
		RegistrationCode string `json:"registration_code"`
		UserID           int64  `json:"user_id"`
	}
	if err := anonymous.call(ctx, "POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, http.StatusOK, &ready); err != nil {
		return nil, err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	var registered struct {
		Device  struct{ ID int64 }
		Session struct {
			AccessToken  string `json:"access_token"`
			RefreshToken string `json:"refresh_token"`
		}
	}
	err = anonymous.call(ctx, "POST", "/apiv1/device/registration", map[string]any{
		"user_id": ready.UserID, "device_public_id": publicID(n), "registration_code": ready.RegistrationCode,
		"dev_pk": base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()),
	}, 0, &registered)
	if err != nil {
		return nil, err
	}
	return &device{c.server.bearer(registered.Session.AccessToken), registered.Device.ID, registered.Session.RefreshToken}, nil
}

// refresh rotates the refresh token.
func (d *device) refresh(ctx context.Context) error {
	var pair struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	err := caller{server: d.server}.call(ctx, "POST", "/auth/refresh", map[string]any{"refresh_token": d.Refresh}, http.StatusOK, &pair)
	if err == nil {
		d.Refresh, d.caller = pair.RefreshToken, d.server.bearer(pair.AccessToken)
	}
	return err
}
