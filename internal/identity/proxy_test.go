package identity

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

// TestEachClientBehindAProxyHasItsOwnLimits: one who uses up all limits behind
// the proxy leaves the others alone, forged headers help nobody, and the session
// and its cookie say where the client is. Loopback is an address like others.
func TestEachClientBehindAProxyHasItsOwnLimits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		h.mux = web.New(web.Options{
			Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{Session: h.Session}, Now: h.clock,
			Proxies: web.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
		})
		h.Mount(h.mux)
		via := func(peer, forwarded string) func(*http.Request) {
			return func(r *http.Request) {
				r.RemoteAddr = peer
				r.Header.Set("X-Forwarded-For", forwarded)
				r.Header.Set("X-Forwarded-Proto", "https")
				r.Header.Set("X-Forwarded-Host", "evil.example")
			}
		}
		for i := range 105 {
			h.login(fmt.Sprintf("u%d@example.org", i), wrongPas, via("127.0.0.1:7", fmt.Sprintf("198.51.100.%d, 203.0.113.1", i)))
		}
		refused(t, h.login(ada, adaPass, via("127.0.0.1:7", "192.0.2.5, 203.0.113.1")), 429, 5013)
		w := h.login(ada, adaPass, via("127.0.0.1:7", "192.0.2.5"))
		set := w.Result().Header.Get("Set-Cookie")
		if w.Code != http.StatusOK || !strings.HasPrefix(set, hostPrefix) || !strings.Contains(set, "Secure") {
			t.Fatalf("another client: %d %s, %s", w.Code, w.Body, set)
		}
		pair, _, _ := strings.Cut(set, ";")
		sessions := decode[[]Session](t, h.call("GET", "/apiv1/me/sessions", "", cookie(pair), via("127.0.0.1:7", "192.0.2.5")))
		if len(sessions) != 1 || sessions[0].IP != "192.0.2.5" {
			t.Errorf("%+v", sessions)
		}
		// A stranger who is no proxy says what he likes; so does loopback to a
		// server without the setting.
		w = h.login(ada, adaPass, via("127.0.0.2:7", "192.0.2.6"))
		if set := w.Result().Header.Get("Set-Cookie"); w.Code != http.StatusOK || strings.HasPrefix(set, hostPrefix) {
			t.Errorf("%d %s", w.Code, set)
		}
		if n := number(t, db, "SELECT COUNT(*) FROM sessions WHERE ip = '127.0.0.2'"); n != 1 {
			t.Errorf("%d sessions from the connection's other end", n)
		}
	})
}

// TestUnknownMembersOfGeneral: agents may be newer than the server.
func TestUnknownMembersOfGeneral(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	if w := h.call("POST", "/auth/general", `{"action":"login","email":"`+ada+`","password":"`+adaPass+`","device_hint":{"a":1}}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
