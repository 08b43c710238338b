package acme

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const maxURL = 2048

// checkURL accepts the URLs a CA may give: absolute, https, with a host, made
// of printable ASCII without quotes (they are signed as JSON text), without
// user information or fragment. It is the caller's business where the URL
// leads; the gate judges that when it is called.
func checkURL(raw string) (*url.URL, error) {
	if raw == "" || len(raw) > maxURL {
		return nil, fmt.Errorf("%w: %d bytes long", ErrBadURL, len(raw))
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"\\<>^`{|}", r) }) {
		return nil, fmt.Errorf("%w: unusual characters", ErrBadURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: malformed", ErrBadURL)
	}
	switch {
	case u.Scheme != "https":
		return nil, fmt.Errorf("%w: scheme is not https", ErrBadURL)
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("%w: no host", ErrBadURL)
	case u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("%w: user information or fragment", ErrBadURL)
	}
	return u, nil
}

// checkURLs gives a Problem when one of the URLs an answer holds is not
// accepted. Empty ones are left out: what must be there is checked elsewhere.
func checkURLs(op string, raws ...string) error {
	for _, raw := range raws {
		if raw == "" {
			continue
		}
		if _, err := checkURL(raw); err != nil {
			return bad(op, Permanent, err, "the CA gave a URL that is not accepted (only https URLs are)")
		}
	}
	return nil
}

// origin is the part of a URL that says whom it addresses.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) + ":" + port
}

// SameOrigin tells whether two https addresses belong to one host and port.
func SameOrigin(a, b string) bool {
	one, err := checkURL(a)
	if err != nil {
		return false
	}
	other, err := checkURL(b)
	return err == nil && origin(one) == origin(other)
}

// mediaType is the Content-Type without its parameters, in lower case.
func mediaType(header http.Header) string {
	value, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(value))
}
