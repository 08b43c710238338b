package apptest

import (
	"testing"
)

// Claim registers a device under an id that may be taken, and returns the id of
// its record, 0 when it was refused.
func (c *Caller) Claim(t *testing.T, publicID string) int64 {
	t.Helper()
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	c.P.Anonymous().Do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).Data(t, &flow)
	c.Do("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, 200)
	var ready struct {
		Code string `json:"registration_code"`
	}
	c.P.Anonymous().Do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).Data(t, &ready)
	var made struct{ Device struct{ ID int64 } }
	a := c.P.Anonymous().Try("POST", "/apiv1/device/registration", map[string]any{
		"user_id": c.UserID, "device_public_id": publicID, "registration_code": ready.Code, "dev_pk": SomePublicKey,
	})
	if a.Status < 300 {
		a.Data(t, &made)
	}
	return made.Device.ID
}
