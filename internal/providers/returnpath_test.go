package providers

import (
	"net/url"
	"strings"
	"testing"
)

// hostilePaths are ways to say another host.
func hostilePaths() []string {
	return []string{
		"//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, `\/evil.example`, "https:evil.example", "https:/evil.example",
		"https://evil.example", "HTTPS://evil.example/", "javascript:alert(1)", "data:text/html,x", "evil.example", "?x", "#x", ".", "..", "a/b",
		"/%2fevil.example", "/%2Fevil.example", "/%5cevil.example", "/%255cevil.example", "/%25252fevil.example", "/%09/evil.example", "/\t/evil.example",
		"/\r\nSet-Cookie: a=b", "/%0d%0aSet-Cookie:%20a=b", "/%0aX: y", " /a", "/a b", "\t//evil.example", "/.//evil.example", "/..//evil.example",
		"/a/..//evil.example", "/./a", "/a/..", "/%2e%2e/a", "/%2e//evil.example", "//user@evil.example", "/a\x00", "/a%20b", "/ä", "/\u2028", "/%", "/%zz",
		"/%E3%80%82evil", "//[::1]/", "/" + strings.Repeat("a", 500), "https://certs.example.org@evil.example/", "//certs.example.org/",
	}
}

func TestReturnPath(t *testing.T) {
	t.Parallel()
	for _, to := range hostilePaths() {
		if path, err := returnPath(to); err == nil {
			t.Errorf("%q was accepted as %q", to, path)
		}
	}
	for _, to := range []string{"/", "/account", "/a/b/", "/a?b=c", "/a?next=//b", "/a#b", "/a?b=https://c", "/device?user_code=ABCD-EFGH"} {
		path, err := returnPath(to)
		if err != nil || path != to {
			t.Errorf("%q: %q, %v", to, path, err)
		}
	}
}

// FuzzReturnPath: what is accepted stays at this server, however a browser
// resolves it.
func FuzzReturnPath(f *testing.F) {
	for _, to := range hostilePaths() {
		f.Add(to)
	}
	f.Add("/account?a=b#c")
	base, err := url.Parse("https://certs.example.org/auth/github/callback")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, to string) {
		path, err := returnPath(to)
		if err != nil {
			return
		}
		there, err := base.Parse(path)
		if err != nil || there.Host != base.Host || there.Scheme != base.Scheme || there.User != nil || strings.HasPrefix(there.Path, "//") {
			t.Errorf("%q goes to %v (%v)", to, there, err)
		}
		if strings.ContainsAny(path, "\\\r\n\t \x00") || path[0] != '/' || len(path) > 1 && path[1] == '/' {
			t.Errorf("%q was accepted as %q", to, path)
		}
	})
}
