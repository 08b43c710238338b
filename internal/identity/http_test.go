package identity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for what, header := range map[string]string{"no session": "a=b", "a dead one": "certharbor_session=" + strings.Repeat("A", tokenLength)} {
			w := h.call("GET", "/auth/status", "", cookie(header))
			if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != `{"data":{"authenticated":false}}` {
				t.Errorf("%s: %d %s", what, w.Code, got)
			}
		}
		w := h.call("GET", "/auth/status", "", cookie(h.signIn(t)))
		want := fmt.Sprintf(`{"data":{"authenticated":true,"user":{"id":%d,"name":"ada","email":"ada@example.org","roles":["admin"],"country_of_residence":""},`+
			`"to":"/","amr":["pwd"],"acr":"aal1","auth_time":%d,"mfa":false}}`, h.ada, h.ms.Load())
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != want {
			t.Errorf("got  %d %s\nwant 200 %s", w.Code, got, want)
		}
	})
}

func TestProfile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		if w := h.call("GET", "/auth/profile", ""); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"code":5018`) {
			t.Errorf("without a session: %d %s", w.Code, w.Body)
		}
		agent := "curl/8 " + strings.Repeat("x", 600) + "\xff"
		pair := h.signIn(t, from("[2001:db8::1]:4711"), func(r *http.Request) { r.Header.Set("User-Agent", agent) })
		w := h.call("GET", "/auth/profile", "", cookie(pair))
		got := decode[profileAnswer](t, w)
		if got.User.ID != h.ada || got.User.Status != StatusActive || got.Session.IP != "2001:db8::1" || got.Session.UserAgent != agent[:200] ||
			got.Session.ExpiresAt-got.Session.CreatedAt != sessionLifetime.Milliseconds() || got.Session.ACR != "aal1" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if text := w.Body.String(); strings.Contains(text, "argon2") || strings.Contains(text, "hash") || strings.Contains(text, strings.SplitN(pair, "=", 2)[1]) {
			t.Errorf("the profile holds a secret: %s", text)
		}
	})
}

// TestKeysAndTokensAreNoSessions: a bearer credential is not looked at where a
// session alone counts.
func TestKeysAndTokensAreNoSessions(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer eyJ.e30.x") }
	if w := h.call("GET", "/auth/profile", "", bearer, cookie(h.signIn(t))); w.Code != http.StatusUnauthorized {
		t.Errorf("profile: %d %s", w.Code, w.Body)
	}
	if w := h.call("GET", "/auth/status", "", bearer); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "false") {
		t.Errorf("status: %d %s", w.Code, w.Body)
	}
}
