package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/web"
)

// The policy of a page names what it holds and forbids the rest.
func TestDocument(t *testing.T) {
	t.Parallel()
	style, script := "p{color:red}", "'use strict';"
	w := httptest.NewRecorder()
	if err := web.NewDocument([]byte("<style>/*style*/</style><script>/*script*/</script>"), []byte(style), []byte(script)).Serve(w); err != nil {
		t.Fatal(err)
	}
	if want := "<style>" + style + "</style><script>" + script + "</script>"; w.Body.String() != want || w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for element, content := range map[string]string{"style": style, "script": script} {
		sum := sha256.Sum256([]byte(content))
		if directive := element + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, directive) {
			t.Errorf("the policy lacks %s: %s", directive, policy)
		}
	}
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "connect-src 'self'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("the policy lacks %s: %s", directive, policy)
		}
	}
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %s", got)
	}
}
