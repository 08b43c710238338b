package identity

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// DefaultCookie is the name of the session cookie unless it is configured.
const DefaultCookie = "certharbor_session"

// hostPrefix makes browsers insist on Secure, Path=/ and no Domain
// (RFC 6265bis section 4.1.3.2).
const hostPrefix = "__Host-"

// cookieAge is how long a browser keeps the cookie: the most that browsers
// accept. The server alone decides when a session ends, and it slides.
const cookieAge = 400 * 24 * time.Hour

// tokenLength is the length of a session id: 32 bytes in base64url.
const tokenLength = 43

var errCookieName = errors.New("a cookie name is 1 to 64 of the characters A-Z a-z 0-9 _ -")

// CheckCookieName refuses a name that the session cookie cannot have.
func CheckCookieName(name string) error {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r == '.' || notInUserName(r) }) {
		return errCookieName
	}
	return nil
}

// cookies makes and reads the session cookie.
type cookies struct {
	name   string // as configured, used without TLS
	secure string // with the __Host- prefix
	https  bool   // the public address is https, whatever the connection is
}

func newCookies(name string, https bool) cookies {
	if name == "" {
		name = DefaultCookie
	}
	name = strings.TrimPrefix(name, hostPrefix)
	return cookies{name: name, secure: hostPrefix + name, https: https}
}

// set is the cookie that carries the token.
func (c cookies) set(token string, overTLS bool) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // plain HTTP on loopback cannot have Secure cookies
		Name: c.name, Value: token, Path: "/", MaxAge: int(cookieAge / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.https || overTLS,
	}
	if cookie.Secure {
		cookie.Name = c.secure
	}
	return cookie
}

// clear is the cookie that makes a browser forget the session.
func (c cookies) clear(overTLS bool) *http.Cookie {
	forget := c.set("", overTLS) //nolint:gosec // as in set
	forget.MaxAge = -1
	return forget
}

// read finds the session cookie's value in the Cookie headers; "" means there
// is none. Scripts return a whole Set-Cookie value, so attributes and other
// pairs that are no cookies of ours are passed over (wire.md section 1.7).
func (c cookies) read(headers []string, overTLS bool) string {
	name := c.name
	if c.https || overTLS {
		name = c.secure
	}
	return readCookie(headers, name)
}

func readCookie(headers []string, name string) string {
	for _, header := range headers {
		for header != "" {
			var pair string
			pair, header, _ = strings.Cut(header, ";")
			key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			if !found || strings.TrimSpace(key) != name {
				continue
			}
			if value = unquote(strings.TrimSpace(value)); value != "" {
				return value
			}
		}
	}
	return ""
}

func unquote(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}
