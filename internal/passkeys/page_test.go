package passkeys

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

// TestPage: the policy names what the document holds and nothing else, and the
// document holds nothing else.
func TestPage(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	w := want(t, h.browser().call("GET", "/account", nil), http.StatusOK, "<title>CertHarbor account</title>")
	policy, document := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "connect-src 'self'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("the policy lacks %s: %s", directive, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
		t.Errorf("the policy is loose: %s", policy)
	}
	for _, element := range []string{"script", "style"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(document, -1)
		if len(found) != 1 || len(found[0][1]) < 100 {
			t.Fatalf("%d elements %s", len(found), element)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if directive := element + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, directive+";") {
			t.Errorf("the policy lacks %s: %s", directive, policy)
		}
	}
	if bad := regexp.MustCompile(`(?i)https?://|\ssrc=|\shref=|\son[a-z]+="|\sstyle="|innerHTML|insertAdjacentHTML|eval\(`).FindString(document); bad != "" {
		t.Errorf("the document holds %q", bad)
	}
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %s", got)
	}
}

// TestPageAtALoopbackAddress: passkeys work at the name, so the page goes there.
func TestPageAtALoopbackAddress(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.BaseURL = "http://127.0.0.1:8080" })
	r := httptest.NewRequest(http.MethodGet, "/account?to=%2Fdevice", nil)
	r.Host = "127.0.0.1:8080"
	w := httptest.NewRecorder()
	if h.mux.ServeHTTP(w, r); w.Header().Get("Location") != "http://localhost:8080/account?to=%2Fdevice" {
		t.Errorf("with a query: %v", w.Header())
	}
	for host, to := range map[string]string{
		"127.0.0.1:8080": "http://localhost:8080/account", "[::1]:8080": "http://localhost:8080/account", "127.0.0.1": "http://localhost:8080/account",
		"localhost:8080": "", "192.0.2.1:8080": "", "evil.example": "", "": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/account", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.mux.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != to || (w.Code == http.StatusFound) != (to != "") {
			t.Errorf("at %q: %d to %q", host, w.Code, got)
		}
	}
}
