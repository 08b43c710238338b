package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// deadOnes are credentials that were good once.
type deadOnes struct {
	lateSession, endedSession, disabledSession *caller
	lateKey, revokedKey, disabledKey           *caller
	lateDevice, deletedDevice, disabledDevice  *caller
}

func (m *matrix) deadOnes(t *testing.T) (d deadOnes) {
	t.Helper()
	d.endedSession = m.signIn("alice@example.org")
	d.endedSession.do("POST", "/auth/logout", nil, 204)
	revoked := m.freshSession(m.alice).apiKey(everything()...)
	revoked.do("GET", "/apiv1/me/devices", nil, 200)
	m.alice.do("DELETE", revoked.path(), nil, 204)
	d.revokedKey = revoked.caller
	deleted := m.alice.enrol(publicID(0xe))
	m.alice.do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d", deleted.ID), nil, 204)
	d.deletedDevice = deleted.caller

	// What has expired was made, in the same ways, when the clock stood at a month ago.
	m.clock.by.Store(int64(-31 * 24 * time.Hour))
	d.lateSession = m.signIn("alice@example.org")
	late := d.lateSession.enrol(publicID(0xf))
	d.lateDevice = late.caller
	d.lateDevice.do("GET", "/apiv1/devices/self/install-config", nil, 200)
	var key struct{ Token string }
	d.lateSession.do("POST", "/apiv1/me/apikeys", map[string]any{"name": "late", "expires_in_seconds": 3600, "permissions": everything()}, 201).data(t, &key)
	d.lateKey = m.bearer(key.Token)
	d.lateKey.do("GET", "/apiv1/me/devices", nil, 200)
	m.clock.by.Store(0)

	d.disabledSession = m.person("dave@example.org")
	d.disabledKey = d.disabledSession.apiKey(everything()...).caller
	d.disabledDevice = d.disabledSession.enrol(publicID(0xd)).caller
	users, done, err := app.Users(t.Context(), m.config)
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
func (m *matrix) garbage() []*caller {
	cookie := func(value string) *caller {
		return &caller{p: m.program, header: http.Header{"Cookie": {m.config.SessionCookie + "=" + value}}}
	}
	authorization := func(value string) *caller {
		return &caller{p: m.program, header: http.Header{"Authorization": {value}}}
	}
	_, token, _ := strings.Cut(m.alice.header.Get("Cookie"), "=")
	key := m.alice.keys["*"]
	header, payload, signature := jwtParts(m.alice.device)
	return []*caller{
		m.bearer("garbage"), m.bearer(""), m.bearer("ak_"), m.bearer(unknownKey), m.bearer(key + "A"), m.bearer(key[:len(key)-1]), m.bearer(strings.ToUpper(key)),
		m.bearer(m.alice.device.Refresh), m.bearer(token), m.bearer(header + "." + payload + "."), m.bearer("eyJhbGciOiJub25lIn0." + payload + "."),
		m.bearer(header + "." + payload + "." + strings.Repeat("A", len(signature))), m.bearer(header + "." + payload + "." + signature + "." + signature),
		authorization("Basic YTpi"), authorization(key), authorization("Bearer"),
		cookie(""), cookie("0123456789012345678901234567890123456789012"), cookie(`"' OR 1=1 --"`), cookie(token[:42]), cookie(token + "A"), cookie(key),
		{p: m.program, header: http.Header{"Cookie": {"__Host-" + m.config.SessionCookie + "=" + token}}}, {p: m.program, header: http.Header{"Cookie": {token}}},
	}
}

func jwtParts(d *device) (header, payload, signature string) {
	parts := strings.Split(strings.TrimPrefix(d.header.Get("Authorization"), "Bearer "), ".")
	return parts[0], parts[1], parts[2]
}

// signIn gives one more session to somebody who exists.
func (p *program) signIn(email string) *caller {
	p.t.Helper()
	a := p.anonymous().general(200, "login", email, "password", password)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return &caller{p: p, header: http.Header{"Cookie": {cookie}}}
}

// freshSession makes a session as a sign-in would, without the cost of one.
func (m *matrix) freshSession(r *resident) *caller { return m.sessionSince(m.db, r, time.Now()) }

// sessionSince makes a session of the resident, who signed in at that time.
func (p *program) sessionSince(db *sqldb.DB, r *resident, signIn time.Time) *caller {
	p.t.Helper()
	return p.sessionWith(db, r, signIn, "aal1")
}

// sessionWith makes a session of the level.
func (p *program) sessionWith(db *sqldb.DB, r *resident, signIn time.Time, acr string) *caller {
	p.t.Helper()
	token, now := seal.NewToken("", 32), time.Now().UnixMilli()
	_, err := db.Writer().ExecContext(p.t.Context(), `INSERT INTO sessions (user_id, token_hash, amr, acr, auth_time, ip, user_agent, created_at, seen_at, expires_at)
		VALUES ($1, $2, '["pwd"]', $3, $4, '', '', $5, $6, $7)`, r.UserID, seal.HashToken(token), acr, signIn.UnixMilli(), now, now, now+3_600_000)
	if err != nil {
		p.t.Fatal(err)
	}
	return &caller{p: p, header: http.Header{"Cookie": {p.config.SessionCookie + "=" + token}}, UserID: r.UserID}
}
