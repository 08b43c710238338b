package acme

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// keyAuthorization is a token and a SHA-256 thumbprint (RFC 8555 section 8.1).
// CAs quote them in the detail of a failed validation.
var keyAuthorization = regexp.MustCompile(`[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{43}`)

// clean makes foreign text fit for one line of at most limit bytes: no control
// or formatting characters (which could forge lines or turn text around), runs
// of white space as one space, valid UTF-8, no key authorization.
func clean(text string, limit int) string {
	if len(text) > 16*limit {
		text = text[:16*limit] // bounds the work, not the result
	}
	var out strings.Builder
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			space = true
			continue
		case !unicode.IsPrint(r) && r != utf8.RuneError:
			continue
		}
		if space && out.Len() > 0 {
			out.WriteByte(' ')
		}
		space = false
		out.WriteRune(r)
	}
	line := keyAuthorization.ReplaceAllString(out.String(), "(key authorization)")
	if len(line) <= limit {
		return line
	}
	const more = "…"
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + more
}
