package passkeys

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestDisabledUser: a passkey lets nobody in whose account is disabled.
func TestDisabledUser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		a := newAuthenticator(t, "ES256")
		h.signedIn(t, h.ada).add(t, a)
		if err := h.people.DisableUser(t.Context(), h.ada); err != nil {
			t.Fatal(err)
		}
		b := h.browser()
		options := b.options(t, "login")
		checkRefusal(t, "disabled", b.post("/auth/webauthn/login/verify", a.get(options)))
		checkRefusal(t, "disabled, again", b.post("/auth/webauthn/login/verify", a.get(options)))
		if n := h.audited(t, h.ada, "session.sign_in_refused"); n != 1 {
			t.Errorf("%d refusals on record", n)
		}
	})
}

// TestLoginOptionsTellNothing: whatever address is named, known or not, the
// answer differs in the challenge alone.
func TestLoginOptionsTellNothing(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	h.signedIn(t, h.ada).add(t, newAuthenticator(t, "ES256"))
	seen := map[string]bool{}
	for _, body := range []any{nil, map[string]any{}, map[string]any{"email": ada}, map[string]any{"email": bob}, map[string]any{"email": "nobody@example.org"}} {
		w := want(t, h.browser().post("/auth/webauthn/login/options", body), http.StatusOK, "")
		var envelope struct{ Data map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
			t.Fatal(err)
		}
		challenge := envelope.Data["challenge"].(string)
		if len(challenge) != 43 || seen[challenge] {
			t.Errorf("challenge %q", challenge)
		}
		seen[challenge] = true
		const same = `{"data":{"challenge":"","timeout":300000,"rpId":"certs.example.org","allowCredentials":[],"userVerification":"required"}}`
		if got := strings.TrimSpace(strings.Replace(w.Body.String(), challenge, "", 1)); got != same {
			t.Errorf("%v: %s", body, got)
		}
		cookie := w.Result().Cookies()[0]
		if cookie.Name != "__Host-certharbor_passkey" || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.MaxAge != 300 {
			t.Errorf("cookie %v", cookie)
		}
		if n := h.number(t, "SELECT COUNT(*) FROM passkey_challenges WHERE bound_to LIKE $1", "%"+cookie.Value+"%"); n != 0 {
			t.Error("the cookie is stored as it is")
		}
	}
}
