package providers

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestRefusalPage: a browser reads a page, a program the envelope, with the same
// status.
func TestRefusalPage(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	b := h.browser()
	b.accept = "text/html,application/xhtml+xml,*/*;q=0.8"
	w := want(t, b.get("/auth/github/callback?state=x&code=<b>"), http.StatusUnauthorized, "not begun in this browser")
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(w.Body.String())
	sum := sha256.Sum256([]byte(style[1]))
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.Contains(policy, "default-src 'none'") ||
		w.Header().Get("Content-Type") != "text/html; charset=utf-8" || strings.Contains(w.Body.String(), "<b>") || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%v\n%s", w.Header(), w.Body)
	}
	for path, status := range map[string]int{"/auth/oidc/nobody": 404, "/auth/github?to=//evil.example": 400} {
		if w := b.get(path); w.Code != status || !strings.Contains(w.Body.String(), "<h1>Not signed in") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	b.accept = "application/json"
	want(t, b.get("/auth/github/callback?state=x"), http.StatusUnauthorized, `{"error":{"code":5018`)
}

// TestLoopbackAddress: the cookie has to be at the name to which the provider
// sends the browser back.
func TestLoopbackAddress(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.BaseURL = "http://127.0.0.1:8080/" })
	for host, to := range map[string]string{
		"127.0.0.1:8080": "http://localhost:8080/auth/github?to=%2Fa", "[::1]:8080": "http://localhost:8080/auth/github?to=%2Fa",
		"localhost:8080": "", "192.0.2.1:8080": "", "evil.example": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/auth/github?to=%2Fa", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.mux.ServeHTTP(w, r)
		got := w.Header().Get("Location")
		if to != "" && got != to || to == "" && parameter(t, got, "redirect_uri") != "http://localhost:8080/auth/github/callback" {
			t.Errorf("at %s: to %s", host, got)
		}
	}
}
