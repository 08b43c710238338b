package web

import (
	"context"
	"strings"
)

// ClientIP returns the address of the client, without port: the connection's
// other end, or the one that trusted proxies name (Proxies). Outside of a request
// it is "".
func ClientIP(ctx context.Context) string {
	if s := stateFrom(ctx); s != nil {
		return s.client
	}
	return ""
}

// OverTLS reports whether the client's request came over TLS, to us or to a
// trusted proxy.
func OverTLS(ctx context.Context) bool {
	s := stateFrom(ctx)
	return s != nil && s.overTLS
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
