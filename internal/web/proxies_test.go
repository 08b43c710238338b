package web

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func behind(header ProxyHeader, ranges ...string) Proxies {
	p := Proxies{Header: header}
	for _, r := range ranges {
		p.Trusted = append(p.Trusted, netip.MustParsePrefix(r))
	}
	return p
}

// TestWhoTheClientIs is the table of both headers.
func TestWhoTheClientIs(t *testing.T) {
	t.Parallel()
	xff := behind(XForwardedFor, "10.0.0.0/8", "fd00::/8")
	rfc := behind(Forwarded, "10.0.0.0/8", "fd00::/8")
	const proxy, stranger = "10.0.0.1:1000", "203.0.113.9:1000"
	for _, c := range []struct {
		what    string
		proxies Proxies
		peer    string
		header  string
		lines   []string
		want    string
	}{
		{"no setting", Proxies{}, proxy, "X-Forwarded-For", []string{"192.0.2.1"}, "10.0.0.1"},
		{"no setting, loopback", Proxies{}, "127.0.0.1:1", "X-Forwarded-For", []string{"192.0.2.1"}, "127.0.0.1"},
		{"a stranger's header", xff, stranger, "X-Forwarded-For", []string{"192.0.2.1"}, "203.0.113.9"},
		{"no header", xff, proxy, "", nil, "10.0.0.1"},
		{"one proxy", xff, proxy, "X-Forwarded-For", []string{"192.0.2.1"}, "192.0.2.1"},
		{"what the client made up", xff, proxy, "X-Forwarded-For", []string{"198.51.100.7, 10.9.9.9, 192.0.2.1"}, "192.0.2.1"},
		{"two proxies", xff, proxy, "X-Forwarded-For", []string{"198.51.100.7, 192.0.2.1 ,10.0.0.2"}, "192.0.2.1"},
		{"several lines", xff, proxy, "X-Forwarded-For", []string{"198.51.100.7", "192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"proxies alone", xff, proxy, "X-Forwarded-For", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"a port", xff, proxy, "X-Forwarded-For", []string{"192.0.2.1:8080"}, "192.0.2.1"},
		{"IPv6", xff, proxy, "X-Forwarded-For", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 with a port", xff, proxy, "X-Forwarded-For", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv6 in brackets", xff, proxy, "X-Forwarded-For", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"a mapped address", xff, "[::ffff:10.0.0.1]:7", "X-Forwarded-For", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"a proxy of IPv6", xff, "[fd00::1]:7", "X-Forwarded-For", []string{"2001:db8::1"}, "2001:db8::1"},
		{"garbage", xff, proxy, "X-Forwarded-For", []string{"192.0.2.1, <script>"}, "10.0.0.1"},
		{"garbage before the client", xff, proxy, "X-Forwarded-For", []string{`", unknown, 192.0.2.1`}, "192.0.2.1"},
		{"unknown behind a proxy", xff, proxy, "X-Forwarded-For", []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		{"an empty element", xff, proxy, "X-Forwarded-For", []string{"192.0.2.1,"}, "10.0.0.1"},
		{"endless", xff, proxy, "X-Forwarded-For", []string{strings.Repeat("10.0.0.2,", 2000) + "10.0.0.2"}, "10.0.0.2"},
		{"the other header", xff, proxy, "Forwarded", []string{"for=192.0.2.1"}, "10.0.0.1"},
		{"RFC 7239 and the other header", rfc, proxy, "X-Forwarded-For", []string{"192.0.2.1"}, "10.0.0.1"},
		{"RFC 7239", rfc, proxy, "Forwarded", []string{"for=192.0.2.1;proto=https;by=203.0.113.43"}, "192.0.2.1"},
		{"RFC 7239, case and space", rfc, proxy, "Forwarded", []string{`proto=http; For="192.0.2.1:47" ,for=10.0.0.2`}, "192.0.2.1"},
		{"RFC 7239, IPv6", rfc, proxy, "Forwarded", []string{`for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{"RFC 7239, IPv6 without a port", rfc, proxy, "Forwarded", []string{`for="[2001:db8::1]"`}, "2001:db8::1"},
		{"RFC 7239, lines", rfc, proxy, "Forwarded", []string{"for=198.51.100.7", `for="192.0.2.1"`, "for=10.0.0.2"}, "192.0.2.1"},
		{"RFC 7239, unknown", rfc, proxy, "Forwarded", []string{"for=192.0.2.1, for=unknown"}, "10.0.0.1"},
		{"RFC 7239, obfuscated", rfc, proxy, "Forwarded", []string{"for=_hidden, for=10.0.0.2"}, "10.0.0.2"},
		{"RFC 7239, no for", rfc, proxy, "Forwarded", []string{"for=192.0.2.1, proto=https"}, "10.0.0.1"},
		{"RFC 7239, for twice", rfc, proxy, "Forwarded", []string{"for=192.0.2.1;for=192.0.2.2"}, "10.0.0.1"},
		{"RFC 7239, a quote that never ends", rfc, proxy, "Forwarded", []string{`for="198.51.100.7, for=192.0.2.1`}, "192.0.2.1"},
		{"RFC 7239, a comma in quotes", rfc, proxy, "Forwarded", []string{`for="198.51.100.7, 192.0.2.1"`}, "10.0.0.1"},
		{"RFC 7239, escaped", rfc, proxy, "Forwarded", []string{`for="192.0.2\.1"`}, "10.0.0.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		for _, line := range c.lines {
			r.Header.Add(c.header, line)
		}
		if got, _ := c.proxies.from(r); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestWhetherItComesByTLS: the proxy that speaks to the server says so, and no
// other.
func TestWhetherItComesByTLS(t *testing.T) {
	t.Parallel()
	xff, rfc := behind(XForwardedFor, "10.0.0.0/8"), behind(Forwarded, "10.0.0.0/8")
	for _, c := range []struct {
		proxies Proxies
		peer    string
		own     bool
		header  string
		value   string
		want    bool
	}{
		{Proxies{}, "10.0.0.1:1", false, "X-Forwarded-Proto", "https", false},
		{Proxies{}, "10.0.0.1:1", true, "X-Forwarded-Proto", "http", true},
		{xff, "203.0.113.9:1", false, "X-Forwarded-Proto", "https", false},
		{xff, "10.0.0.1:1", false, "X-Forwarded-Proto", "https", true},
		{xff, "10.0.0.1:1", false, "X-Forwarded-Proto", "https, http", false},
		{xff, "10.0.0.1:1", false, "X-Forwarded-Proto", "http, HTTPS", true},
		{xff, "10.0.0.1:1", false, "X-Forwarded-Host", "https", false},
		{xff, "10.0.0.1:1", false, "Forwarded", "proto=https", false},
		{rfc, "10.0.0.1:1", false, "Forwarded", "proto=http, for=192.0.2.1;proto=https", true},
		{rfc, "10.0.0.1:1", false, "Forwarded", "proto=https, for=192.0.2.1;proto=http", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set(c.header, c.value)
		if c.own {
			r.TLS = &tls.ConnectionState{}
		}
		if _, got := c.proxies.from(r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func FuzzProxyHeaders(f *testing.F) {
	for _, seed := range []string{"192.0.2.1, 10.0.0.2", `for="[2001:db8::1]:4711";proto=https`, `for="`, ",,,", "unknown", "[::1", `"\",`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, header := range []ProxyHeader{XForwardedFor, Forwarded} {
			p := behind(header, "10.0.0.0/8")
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "10.0.0.1:1"
			name, honest := "X-Forwarded-For", "203.0.113.77"
			if header == Forwarded {
				name, honest = "Forwarded", `for="203.0.113.77:9"`
			}
			r.Header[name] = []string{text}
			if client, _ := p.from(r); func() bool { _, err := netip.ParseAddr(client); return err != nil }() {
				t.Errorf("%s %q gives %q, which is no address", name, text, client)
			}
			// What a client sends changes nothing of what the proxy adds.
			for _, lines := range [][]string{{text, honest}, {text + ", " + honest}} {
				r.Header[name] = lines
				if client, _ := p.from(r); client != "203.0.113.77" {
					t.Errorf("%s %q gives %q", name, lines, client)
				}
			}
		}
	})
}
