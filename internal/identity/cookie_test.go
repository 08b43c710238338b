package identity

import (
	"net/http"
	"strings"
	"testing"
)

func TestCookieAttributes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		configured     string
		https, overTLS bool
		want           string
	}{
		{"plain", "", false, false, "certharbor_session=T; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax"},
		{"own name", "sid", false, false, "sid=T; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax"},
		{"own TLS", "sid", false, true, "__Host-sid=T; Path=/; Max-Age=34560000; HttpOnly; Secure; SameSite=Lax"},
		{"TLS proxy", "sid", true, false, "__Host-sid=T; Path=/; Max-Age=34560000; HttpOnly; Secure; SameSite=Lax"},
		{"prefixed name", "__Host-sid", true, true, "__Host-sid=T; Path=/; Max-Age=34560000; HttpOnly; Secure; SameSite=Lax"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			jar := newCookies(c.configured, c.https)
			if got := jar.set("T", c.overTLS).String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := jar.clear(c.overTLS); got.MaxAge >= 0 || got.Value != "" || !strings.HasSuffix(c.want, strings.SplitAfter(got.String(), "Max-Age=0")[1]) {
				t.Errorf("clear: %s", got)
			}
		})
	}
}

func TestCookieRead(t *testing.T) {
	t.Parallel()
	plain, secure := newCookies("sid", false), newCookies("sid", true)
	for _, c := range []struct {
		name    string
		jar     cookies
		headers []string
		want    string
	}{
		{"none", plain, nil, ""},
		{"empty header", plain, []string{""}, ""},
		{"alone", plain, []string{"sid=T"}, "T"},
		{"a whole Set-Cookie value", plain, []string{"sid=T; Path=/; HttpOnly; SameSite=Lax; Max-Age=1"}, "T"},
		{"among others", plain, []string{"theme=dark; sid=T; lang=de"}, "T"},
		{"in the second header", plain, []string{"theme=dark", "sid=T"}, "T"},
		{"no spaces", plain, []string{"a=b;sid=T;c"}, "T"},
		{"many spaces", plain, []string{"  ;;  sid =  T ; "}, "T"},
		{"quoted", plain, []string{`sid="T"`}, "T"},
		{"bytes that no cookie may hold", plain, []string{"x=\x01\xff,{}; sid=T"}, "T"},
		{"value with equals sign", plain, []string{"sid=T=="}, "T=="},
		{"value-less pair of that name", plain, []string{"sid; sid=T"}, "T"},
		{"empty value", plain, []string{"sid=; sid=T"}, "T"},
		{"longer name", plain, []string{"xsid=T; sidx=T"}, ""},
		{"other case", plain, []string{"SID=T"}, ""},
		{"the first counts", plain, []string{"sid=T; sid=U"}, "T"},
		{"unprefixed under https", secure, []string{"sid=T"}, ""},
		{"prefixed under https", secure, []string{"sid=U; __Host-sid=T"}, "T"},
		{"prefixed without https", plain, []string{"__Host-sid=T"}, ""},
	} {
		if got := c.jar.read(c.headers, false); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCheckCookieName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"sid": true, "__Host-sid": true, DefaultCookie: true,
		"": false, "a b": false, "a=b": false, "a;b": false, "ä": false, "a.b": false, strings.Repeat("a", 65): false,
	} {
		if err := CheckCookieName(name); (err == nil) != good {
			t.Errorf("CheckCookieName(%q): %v", name, err)
		}
	}
}

// FuzzCookieRead: whatever else a header holds, our pair is found as net/http
// finds it, and nothing is found in a header that does not name it.
func FuzzCookieRead(f *testing.F) {
	f.Add("sid=T; Path=/; HttpOnly")
	f.Add("a=b; sid=\"T\";;; x")
	f.Add("SID=1;sid")
	f.Fuzz(func(t *testing.T, header string) {
		jar := newCookies("sid", false)
		got := jar.read([]string{header}, false)
		if got != "" && !strings.Contains(header, got) {
			t.Errorf("%q is not in %q", got, header)
		}
		if strings.Contains(got, ";") {
			t.Errorf("%q reaches over its pair", got)
		}
		r := http.Request{Header: http.Header{"Cookie": {header}}}
		if c, err := r.Cookie("sid"); err == nil && c.Value != "" && got == "" {
			t.Errorf("net/http finds %q in %q", c.Value, header)
		}
		if again := jar.read([]string{header + "; sid=T"}, false); again == "" {
			t.Errorf("our pair is not found after %q", header)
		}
	})
}
