package client_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/client"
)

func TestExpiresAt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	jwt := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
	}
	exp := func(d time.Duration) string { return jwt(fmt.Sprintf(`{"exp":%d}`, now.Add(d).Unix())) }
	tests := map[string]struct {
		tokens client.Tokens
		want   time.Duration
	}{
		"claim":              {client.Tokens{AccessToken: exp(59 * time.Minute), ExpiresIn: 3600}, 59 * time.Minute},
		"claim alone":        {client.Tokens{AccessToken: exp(time.Minute)}, time.Minute},
		"server clock ahead": {client.Tokens{AccessToken: exp(48 * time.Hour), ExpiresIn: 3600}, time.Hour},
		"server clock late":  {client.Tokens{AccessToken: exp(-48 * time.Hour), ExpiresIn: 3600}, time.Hour},
		"opaque":             {client.Tokens{AccessToken: "x", ExpiresIn: 3600}, time.Hour},
		"bad base64":         {client.Tokens{AccessToken: "a.!.c", ExpiresIn: 3600}, time.Hour},
		"no exp":             {client.Tokens{AccessToken: jwt(`{}`), ExpiresIn: 3600}, time.Hour},
		"exp as text":        {client.Tokens{AccessToken: jwt(`{"exp":"1"}`), ExpiresIn: 3600}, time.Hour},
	}
	for name, tt := range tests {
		if got := tt.tokens.ExpiresAt(now).Sub(now); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
