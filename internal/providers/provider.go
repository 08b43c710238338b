package providers

import (
	"context"
	"strings"
	"unicode"
)

// provider is one place with accounts.
type provider interface {
	// about says what people and programs see of it.
	about() Info
	// begin gives the address at the provider to which the browser goes.
	begin(ctx context.Context, s secrets) (string, error)
	// finish asks the provider who has come back with the code. Its errors are
	// faults: refused or unreachable.
	finish(ctx context.Context, s secrets, code string) (account, error)
}

// Info is a way to sign in that the settings offer.
type Info struct {
	Provider string `json:"provider" doc:"Its code, as in the list of bindings."`
	Kind     string `json:"kind" enum:"github,weixin,oidc,solana"`
	Title    string `json:"title" doc:"Its name, for people."`
	URL      string `json:"url" doc:"Where a browser goes to sign in; for solana, where the message comes from."`
	issuer   string // the iss that an answer may name (RFC 9207), "": none is expected
}

// The kinds of providers. But for OpenID Connect they are the codes as well.
const (
	kindGitHub = "github"
	kindWeixin = "weixin"
	kindOIDC   = "oidc"
	kindSolana = "solana"
)

// secrets are what one attempt shares with the provider.
type secrets struct {
	state    string
	verifier string // PKCE (RFC 7636)
	nonce    string // of an ID token
	callback string // the redirect URI
}

// account is somebody's account elsewhere.
type account struct {
	issuer   string // who gives out subjects
	subject  string
	name     string // for people, may be empty
	userName string // what a new user would be called here, may be empty
	email    string // verified by the provider, else ""
}

const maxName = 200

// shown makes a name from elsewhere fit to be kept and shown.
func shown(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	for runes := []rune(strings.TrimSpace(name)); ; runes = runes[:len(runes)-1] {
		if text := string(runes); len(text) <= maxName {
			return text
		}
	}
}

// maxSubject is in bytes; OpenID Connect Core 1.0 section 2 allows 255.
const maxSubject = 255

// plain reports whether an id from elsewhere can be kept as it is.
func plain(subject string) bool {
	return subject != "" && len(subject) <= maxSubject && !strings.ContainsFunc(subject, func(r rune) bool { return r < ' ' || r > '~' })
}
