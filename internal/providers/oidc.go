package providers

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"certharbor.dev/certharbor/internal/fault"
)

// openID is a client of an OpenID Connect provider (OpenID Connect Core 1.0,
// authorization code flow with PKCE).
type openID struct {
	settings OIDC
	client   *http.Client
	now      func() time.Time

	mu    sync.Mutex
	known *discovered
}

// discovered is what a provider says about itself, and the keys it signs with.
type discovered struct {
	document discovery
	verifier *oidc.IDTokenVerifier
	until    time.Time
}

// discovery is what is read of OpenID Connect Discovery 1.0 section 3.
type discovery struct {
	Issuer      string   `json:"issuer"`
	Authorize   string   `json:"authorization_endpoint"`
	Token       string   `json:"token_endpoint"`
	UserInfo    string   `json:"userinfo_endpoint"`
	Keys        string   `json:"jwks_uri"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
}

// algorithms may sign ID tokens: none and those of shared secrets may not.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// discoveryAge is how long a discovery document is believed.
const discoveryAge = time.Hour

func (o *openID) about() Info {
	return Info{Provider: o.settings.Name, Kind: kindOIDC, Title: o.settings.Title, URL: "/auth/oidc/" + o.settings.Name, issuer: o.settings.Issuer}
}

// discover reads the document when it is not known or old. Several at once may:
// waiting for each other would make a provider that hangs worse.
func (o *openID) discover(ctx context.Context) (*discovered, error) {
	o.mu.Lock()
	known := o.known
	o.mu.Unlock()
	if known != nil && o.now().Before(known.until) {
		return known, nil
	}
	var document discovery
	if err := getJSON(ctx, o.client, strings.TrimSuffix(o.settings.Issuer, "/")+"/.well-known/openid-configuration", nil, &document); err != nil {
		return nil, unreachable(o.settings.Title, err)
	}
	if document.Issuer != o.settings.Issuer {
		return nil, misconfigured(o.settings.Title, "the discovery document names another issuer than the setting")
	}
	for _, address := range []string{document.Authorize, document.Token, document.Keys} {
		if checkAddress(address) != nil {
			return nil, misconfigured(o.settings.Title, "the discovery document names an endpoint that is not https")
		}
	}
	keys := &http.Client{Transport: onlyOK{o.client.Transport}, CheckRedirect: o.client.CheckRedirect, Timeout: o.client.Timeout}
	found := &discovered{document: document, until: o.now().Add(discoveryAge)}
	remote := oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), keys), document.Keys)
	found.verifier = oidc.NewVerifier(o.settings.Issuer, keySet{remote}, &oidc.Config{ClientID: o.settings.ClientID, SupportedSigningAlgs: algorithms, Now: o.now})
	o.mu.Lock()
	o.known = found
	o.mu.Unlock()
	return found, nil
}

func misconfigured(title, reason string) *fault.Error {
	return fault.Unavailable(retryAfter, title+" is not set up as this server expects; the server's log says why.", errors.New(reason))
}

func (o *openID) config(d discovery) oauth2.Config {
	style := oauth2.AuthStyleInHeader // client_secret_basic, which a provider need not list
	if o.settings.ClientSecret == "" || len(d.AuthMethods) > 0 && !slices.Contains(d.AuthMethods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return oauth2.Config{
		ClientID: o.settings.ClientID, ClientSecret: o.settings.ClientSecret, Scopes: []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail},
		Endpoint: oauth2.Endpoint{AuthURL: d.Authorize, TokenURL: d.Token, AuthStyle: style},
	}
}

func (o *openID) begin(ctx context.Context, s secrets) (string, error) {
	d, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	config := o.config(d.document)
	config.RedirectURL = s.callback
	return config.AuthCodeURL(s.state, oauth2.S256ChallengeOption(s.verifier), oidc.Nonce(s.nonce)), nil
}

// claims are what is read of an ID token or of the userinfo endpoint (OpenID
// Connect Core 1.0 section 5.1).
type claims struct {
	Subject         string `json:"sub"`
	AuthorizedParty string `json:"azp"`
	Email           string `json:"email"`
	EmailVerified   truth  `json:"email_verified"`
	UserName        string `json:"preferred_username"`
	Name            string `json:"name"`
}

// truth is a boolean; some providers write it as a string.
type truth bool

// UnmarshalJSON implements json.Unmarshaler.
func (t *truth) UnmarshalJSON(text []byte) error {
	*t = string(text) == "true" || string(text) == `"true"`
	return nil
}

func (o *openID) finish(ctx context.Context, s secrets, code string) (account, error) {
	title := o.settings.Title
	d, err := o.discover(ctx)
	if err != nil {
		return account{}, err
	}
	token, err := redeem(ctx, o.client, title, o.config(d.document), s, code)
	if err != nil {
		return account{}, err
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok || raw == "" {
		return account{}, refused(title, "there is no ID token in the answer")
	}
	c, err := o.verify(ctx, d, s, raw)
	if err != nil {
		return account{}, err
	}
	if c.Email == "" && c.UserName == "" && d.document.UserInfo != "" {
		if err := o.ask(ctx, d.document.UserInfo, token, &c); err != nil {
			return account{}, err
		}
	}
	a := account{issuer: o.settings.Issuer, subject: c.Subject, userName: c.UserName}
	if c.EmailVerified {
		a.email = c.Email
	}
	for _, name := range []string{c.UserName, c.Name, a.email} {
		if a.name = shown(name); a.name != "" {
			break
		}
	}
	return a, nil
}

// keySet tells why a signature was not verified; the verifier keeps the text of
// the error alone.
type keySet struct{ *oidc.RemoteKeySet }

type whyKey struct{}

// VerifySignature implements oidc.KeySet.
func (k keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.RemoteKeySet.VerifySignature(ctx, token)
	if why, ok := ctx.Value(whyKey{}).(*error); ok {
		*why = err
	}
	return payload, err
}

// verify follows OpenID Connect Core 1.0 section 3.1.3.7.
func (o *openID) verify(ctx context.Context, d *discovered, s secrets, raw string) (claims, error) {
	var why error
	token, err := d.verifier.Verify(context.WithValue(ctx, whyKey{}, &why), raw)
	if err != nil {
		if lost, ok := errors.AsType[*url.Error](why); ok { // the keys could not be had
			return claims{}, unreachable(o.settings.Title, lost.Err)
		}
		return claims{}, refused(o.settings.Title, "ID token: "+shown(err.Error()))
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return claims{}, refused(o.settings.Title, "ID token: the claims cannot be read")
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(s.nonce)) != 1:
		return claims{}, refused(o.settings.Title, "ID token: another nonce")
	case c.AuthorizedParty != "" && c.AuthorizedParty != o.settings.ClientID, c.AuthorizedParty == "" && len(token.Audience) > 1:
		return claims{}, refused(o.settings.Title, "ID token: made out to another party")
	case !plain(c.Subject):
		return claims{}, refused(o.settings.Title, "ID token: no usable subject")
	}
	return c, nil
}

// ask completes the claims with those of the userinfo endpoint (section 5.3).
func (o *openID) ask(ctx context.Context, address string, token *oauth2.Token, c *claims) error {
	var told claims
	if err := getJSON(ctx, o.client, address, http.Header{"Authorization": {"Bearer " + token.AccessToken}}, &told); err != nil {
		return unreachable(o.settings.Title, err)
	}
	if told.Subject != c.Subject {
		return refused(o.settings.Title, "userinfo is about somebody else")
	}
	c.Email, c.EmailVerified, c.UserName, c.Name = told.Email, told.EmailVerified, told.UserName, told.Name
	return nil
}
