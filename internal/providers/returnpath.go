package providers

import (
	"net/url"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
)

// home is where a browser goes when nobody said where.
const home = "/account"

const maxReturn = 500

// returnPath judges where a browser wants to go after it has signed in: a path
// of this server, with a query if need be, and nothing that any browser, proxy
// or library takes for another host, however it is encoded. "" means home.
// Errors: 5000 naming "to".
func returnPath(to string) (string, error) {
	if to == "" {
		return home, nil
	}
	if len(to) > maxReturn || !local(to) {
		return "", fault.Invalid("to", "must be a path of this server such as /account, at most %d characters, without //, \\ and ..", maxReturn)
	}
	return to, nil
}

// local judges the text and every text that it may be decoded to.
func local(to string) bool {
	for range 4 {
		u, err := url.Parse(to)
		if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(to, "/") {
			return false
		}
		path, _, _ := strings.Cut(to, "?")
		path, _, _ = strings.Cut(path, "#")
		odd := strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' })
		if odd || strings.Contains(path, "//") || strings.Contains(path+"/", "/../") || strings.Contains(path+"/", "/./") {
			return false
		}
		decoded, err := url.PathUnescape(to)
		if err != nil {
			return false
		}
		if decoded == to {
			return true
		}
		to = decoded
	}
	return false // nobody encodes so often who means well
}
