package matrix_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
)

// deadOnes are credentials that were good once.
type deadOnes struct {
	lateSession, endedSession, disabledSession *apptest.Caller
	lateKey, revokedKey, disabledKey           *apptest.Caller
	lateDevice, deletedDevice, disabledDevice  *apptest.Caller
}

func (m *matrix) deadOnes(t *testing.T) (d deadOnes) {
	t.Helper()
	d.endedSession = m.SignIn("alice@example.org")
	d.endedSession.Do("POST", "/auth/logout", nil, 204)
	revoked := m.freshSession(m.Alice).APIKey(apptest.Everything()...)
	revoked.Do("GET", "/apiv1/me/devices", nil, 200)
	m.Alice.Do("DELETE", revoked.Path(), nil, 204)
	d.revokedKey = revoked.Caller
	deleted := m.Alice.Enrol(apptest.PublicID(0xe))
	m.Alice.Do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d", deleted.ID), nil, 204)
	d.deletedDevice = deleted.Caller

	// What has expired was made, in the same ways, when the clock stood at a month ago.
	m.clock.By.Store(int64(-31 * 24 * time.Hour))
	d.lateSession = m.SignIn("alice@example.org")
	late := d.lateSession.Enrol(apptest.PublicID(0xf))
	d.lateDevice = late.Caller
	d.lateDevice.Do("GET", "/apiv1/devices/self/install-config", nil, 200)
	var key struct{ Token string }
	d.lateSession.Do("POST", "/apiv1/me/apikeys", map[string]any{"name": "late", "expires_in_seconds": 3600, "permissions": apptest.Everything()}, 201).Data(t, &key)
	d.lateKey = m.Bearer(key.Token)
	d.lateKey.Do("GET", "/apiv1/me/devices", nil, 200)
	m.clock.By.Store(0)

	d.disabledSession = m.Person("dave@example.org")
	d.disabledKey = d.disabledSession.APIKey(apptest.Everything()...).Caller
	d.disabledDevice = d.disabledSession.Enrol(apptest.PublicID(0xd)).Caller
	users, done, err := app.Users(t.Context(), m.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := users.DisableUser(t.Context(), d.disabledSession.UserID); err != nil { // as the operator's command does
		t.Fatal(err)
	}
	return d
}

// garbage are credentials that never were any. Some hold a good one.
func (m *matrix) garbage() []*apptest.Caller {
	cookie := func(value string) *apptest.Caller {
		return &apptest.Caller{P: m.Program, Header: http.Header{"Cookie": {m.Config.SessionCookie + "=" + value}}}
	}
	authorization := func(value string) *apptest.Caller {
		return &apptest.Caller{P: m.Program, Header: http.Header{"Authorization": {value}}}
	}
	_, token, _ := strings.Cut(m.Alice.Header.Get("Cookie"), "=")
	key := m.Alice.Keys["*"]
	header, payload, signature := jwtParts(m.Alice.Device)
	return []*apptest.Caller{
		m.Bearer("garbage"), m.Bearer(""), m.Bearer("ak_"), m.Bearer(apptest.UnknownKey), m.Bearer(key + "A"), m.Bearer(key[:len(key)-1]), m.Bearer(strings.ToUpper(key)),
		m.Bearer(m.Alice.Device.Refresh), m.Bearer(token), m.Bearer(header + "." + payload + "."), m.Bearer("eyJhbGciOiJub25lIn0." + payload + "."),
		m.Bearer(header + "." + payload + "." + strings.Repeat("A", len(signature))), m.Bearer(header + "." + payload + "." + signature + "." + signature),
		authorization("Basic YTpi"), authorization(key), authorization("Bearer"),
		cookie(""), cookie("0123456789012345678901234567890123456789012"), cookie(`"' OR 1=1 --"`), cookie(token[:42]), cookie(token + "A"), cookie(key),
		{P: m.Program, Header: http.Header{"Cookie": {"__Host-" + m.Config.SessionCookie + "=" + token}}}, {P: m.Program, Header: http.Header{"Cookie": {token}}},
	}
}

func jwtParts(d *apptest.Device) (header, payload, signature string) {
	parts := strings.Split(strings.TrimPrefix(d.Header.Get("Authorization"), "Bearer "), ".")
	return parts[0], parts[1], parts[2]
}

// freshSession makes a session as a sign-in would, without the cost of one.
func (m *matrix) freshSession(r *apptest.Resident) *apptest.Caller {
	return m.SessionSince(m.db, r, time.Now())
}
