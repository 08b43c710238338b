package web

import (
	"context"
	"net"
	"strings"
)

// ClientIP returns the address of the connection's other end, without port.
// Headers such as X-Forwarded-For are never trusted (threats.md, OWASP ASVS
// 4.1.3). Outside of a request it is "".
func ClientIP(ctx context.Context) string {
	s := stateFrom(ctx)
	if s == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(s.request.RemoteAddr)
	if err != nil {
		return s.request.RemoteAddr
	}
	return host
}

// OverTLS reports whether the request came over a TLS connection of our own.
func OverTLS(ctx context.Context) bool {
	s := stateFrom(ctx)
	return s != nil && s.request.TLS != nil
}

// maxUserAgent is how much is kept of what a client calls itself, in bytes.
const maxUserAgent = 200

// UserAgent returns what the client calls itself, which proves nothing: at most
// 200 bytes of valid UTF-8 without NUL, so that any column holds it.
func UserAgent(ctx context.Context) string {
	s := stateFrom(ctx)
	if s == nil {
		return ""
	}
	text := s.request.UserAgent()
	text = strings.ToValidUTF8(text[:min(len(text), maxUserAgent)], "")
	return strings.ReplaceAll(text, "\x00", "")
}

// Cookies returns the Cookie headers of the request, unparsed.
func Cookies(ctx context.Context) []string {
	if s := stateFrom(ctx); s != nil {
		return s.request.Header["Cookie"]
	}
	return nil
}
