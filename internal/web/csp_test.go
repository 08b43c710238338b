package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"regexp"
	"strings"
	"testing"
)

// The documentation runs no script but those it came with.
func TestDocsPolicy(t *testing.T) {
	t.Parallel()
	m := newMux(t, io.Discard)
	if err := m.MountDocs(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/docs", "/docs/"} {
		w := do(m, "GET", path, "")
		policy := w.Header().Get("Content-Security-Policy")
		_, scripts, found := strings.Cut(policy, "script-src ")
		scripts, _, _ = strings.Cut(scripts, ";")
		if !found || strings.Contains(scripts, "unsafe") {
			t.Errorf("%s: %q", path, policy)
		}
		inline := regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`).FindAllStringSubmatch(w.Body.String(), -1)
		n := 0
		for _, script := range inline {
			if strings.Contains(script[1], "src=") {
				continue
			}
			n++
			sum := sha256.Sum256([]byte(script[2]))
			if !strings.Contains(scripts, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
				t.Errorf("%s: no digest of %.80q", path, script[2])
			}
		}
		if n == 0 || regexp.MustCompile(`\son[a-z]+="`).MatchString(w.Body.String()) {
			t.Errorf("%s: %d inline scripts: %s", path, n, w.Body)
		}
	}
}
