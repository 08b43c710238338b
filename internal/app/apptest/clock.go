package apptest

import (
	"sync/atomic"
	"testing"
	"time"
)

// Skew is a wall clock that jumps.
type Skew struct{ By atomic.Int64 }

func (s *Skew) Now() time.Time { return time.Now().Add(time.Duration(s.By.Load())) }

// Refreshed gives the device another pair of tokens.
func (d *Device) Refreshed(t *testing.T) {
	t.Helper()
	var pair struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	d.P.Anonymous().Do("POST", "/auth/refresh", map[string]any{"refresh_token": d.Refresh}, 200).Data(t, &pair)
	d.Caller, d.Refresh = d.P.Bearer(pair.AccessToken), pair.RefreshToken
}
