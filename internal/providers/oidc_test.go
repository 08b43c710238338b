package providers

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestIDTokens: OpenID Connect Core 1.0 section 3.1.3.7, rule by rule.
func TestIDTokens(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	good := func(map[string]any, map[string]any) {}
	set := func(name string, value any) func(map[string]any, map[string]any) {
		return func(_, claims map[string]any) {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
	}
	head := func(name string, value any) func(map[string]any, map[string]any) {
		return func(header, _ map[string]any) { header[name] = value }
	}
	at := h.clock().Unix()
	for _, c := range []struct {
		name, alg string
		forge     func(header, claims map[string]any)
		accepted  bool
	}{
		{"RS256", "RS256", good, true},
		{"ES256", "ES256", good, true},
		{"a list with the client alone", "RS256", set("aud", []string{h.corp.ClientID}), true},
		{"several audiences and the client as party", "RS256", func(_, c map[string]any) { c["aud"], c["azp"] = []string{"x", h.corp.ClientID}, h.corp.ClientID }, true},
		{"no kid", "RS256", func(header, _ map[string]any) { delete(header, "kid") }, true},
		{"alg none", "none", good, false},
		{"alg None", "none", head("alg", "None"), false},
		{"alg none over a signature", "RS256", head("alg", "none"), false},
		{"HS256 with the public key", "HS256", good, false},
		{"HS256 said, RS256 signed", "RS256", head("alg", "HS256"), false},
		{"ES256 said, RS256 signed", "RS256", head("alg", "ES256"), false},
		{"no alg", "RS256", func(header, _ map[string]any) { delete(header, "alg") }, false},
		{"an unknown kid", "RS256", head("kid", "nobody's"), false},
		{"a key in the header", "RS256", func(header, _ map[string]any) {
			header["jwk"], header["kid"] = map[string]any{"kty": "oct", "k": "AA"}, "x"
		}, false},
		{"a critical extension", "RS256", head("crit", []string{"x"}), false},
		{"another issuer", "RS256", set("iss", "https://evil.example"), false},
		{"the issuer with a slash", "RS256", set("iss", h.corp.URL+"/"), false},
		{"no issuer", "RS256", set("iss", nil), false},
		{"another audience", "RS256", set("aud", "somebody"), false},
		{"no audience", "RS256", set("aud", nil), false},
		{"an empty audience", "RS256", set("aud", []string{}), false},
		{"several audiences, no party", "RS256", set("aud", []string{"x", h.corp.ClientID}), false},
		{"another party", "RS256", set("azp", "somebody"), false},
		{"several audiences, another party", "RS256", func(_, c map[string]any) { c["aud"], c["azp"] = []string{"x", h.corp.ClientID}, "x" }, false},
		{"another nonce", "RS256", set("nonce", "x"), false},
		{"no nonce", "RS256", set("nonce", nil), false},
		{"expired", "RS256", set("exp", at-1), false},
		{"no expiry", "RS256", set("exp", nil), false},
		{"not yet", "RS256", set("nbf", at+3600), false},
		{"no subject", "RS256", set("sub", nil), false},
		{"an empty subject", "RS256", set("sub", ""), false},
		{"a subject of 256 bytes", "RS256", set("sub", strings.Repeat("a", 256)), false},
		{"a subject with a line break", "RS256", set("sub", "a\nb"), false},
		{"a subject that is a number", "RS256", set("sub", 5), false},
	} {
		k.server.SignedIn(providertest.Person{ID: "u-" + c.name, Name: "somebody"})
		h.corp.Sign(c.alg)
		h.corp.Forge(c.forge)
		b := h.browser()
		w := b.get(visit(t, k, b.begin(t, k)))
		status, text := http.StatusUnauthorized, "Corp did not confirm this sign-in"
		if c.accepted {
			status, text = http.StatusSeeOther, ""
		}
		if want(t, w, status, text); (b.who(t) != 0) != c.accepted {
			t.Errorf("%s: signed in as %d", c.name, b.who(t))
		}
	}
}

// TestForgedSignatures: what is not a token at all, and one of another key.
func TestForgedSignatures(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	k.server.SignedIn(grace())
	want(t, h.browser().signIn(t, k, grace()), http.StatusSeeOther, "")
	foreign := providertest.StartOIDC(t)
	for name, token := range map[string]string{
		"nothing": "", "a word": "x", "three dots": "...", "empty parts": "..", "JSON serialisation": `{"payload":"e30","signatures":[]}`, "an encrypted one": "a.b.c.d.e",
		"a key of somebody else": foreign.Token(map[string]any{"iss": h.corp.URL, "sub": "1", "aud": h.corp.ClientID, "exp": h.clock().Add(time.Hour).Unix()}),
	} {
		body, _ := json.Marshal(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
		k.server.Fault(k.tokenPath, providertest.Answer(http.StatusOK, "application/json", string(body)))
		b := h.browser()
		want(t, b.get(visit(t, k, b.begin(t, k))), http.StatusUnauthorized, "did not confirm")
		if b.who(t) != 0 {
			t.Errorf("%s: signed in", name)
		}
	}
}

// TestKeyRotation: new keys are fetched when a token names one that is not known,
// and the old ones are good no more.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	for range 3 {
		want(t, h.browser().signIn(t, k, grace()), http.StatusSeeOther, "")
	}
	if n := h.corp.Requests(providertest.OIDCKeys); n != 1 {
		t.Errorf("the keys were asked for %d times", n)
	}
	h.corp.Rotate(t)
	want(t, h.browser().signIn(t, k, grace()), http.StatusSeeOther, "")
	if n := h.corp.Requests(providertest.OIDCKeys); n != 2 {
		t.Errorf("the keys were asked for %d times", n)
	}
	if n := h.corp.Requests(providertest.OIDCDiscovery); n != 1 {
		t.Errorf("the document was asked for %d times", n)
	}
	h.advance(discoveryAge)
	want(t, h.browser().signIn(t, k, grace()), http.StatusSeeOther, "")
	if n := h.corp.Requests(providertest.OIDCDiscovery); n != 2 {
		t.Errorf("the document was asked for %d times after an hour", n)
	}
}

// TestDiscovery: a document that is not that of the issuer, or leads elsewhere,
// is not used.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	with := func(name string, value any) http.HandlerFunc {
		document := maps.Clone(h.corp.Document())
		if document[name] = value; value == nil {
			delete(document, name)
		}
		text, _ := json.Marshal(document)
		return providertest.Answer(http.StatusOK, "application/json", string(text))
	}
	for name, fault := range map[string]http.HandlerFunc{
		"another issuer": with("issuer", "https://evil.example"), "no issuer": with("issuer", nil), "the issuer with a slash": with("issuer", h.corp.URL+"/"),
		"no authorization": with("authorization_endpoint", nil), "a script": with("authorization_endpoint", "javascript:alert(1)"),
		"plain http": with("token_endpoint", "http://evil.example/token"), "no keys": with("jwks_uri", nil), "a file": with("jwks_uri", "file:///etc/passwd"),
		"no object": providertest.Answer(http.StatusOK, "application/json", `[]`), "numbers": providertest.Answer(http.StatusOK, "application/json", `{"issuer":5}`),
		"garbage": providertest.Garbage, "500": providertest.Broken, "404": providertest.Answer(404, "text/plain", providertest.Upstream), "huge": providertest.Huge,
		"hang": providertest.Hang, "redirect": providertest.Redirect(h.corp.URL + "/elsewhere"), "nothing": providertest.Empty,
	} {
		h.corp.Fault(providertest.OIDCDiscovery, fault)
		b := h.browser()
		w := want(t, b.get(k.path), http.StatusServiceUnavailable, "Corp ")
		if w.Header().Get("Retry-After") == "" || len(b.cookies) != 0 {
			t.Errorf("%s: %v, cookies %v", name, w.Header(), b.cookies)
		}
	}
	h.corp.Fault(providertest.OIDCDiscovery, nil)
	want(t, h.browser().signIn(t, k, grace()), http.StatusSeeOther, "")
}

// TestUserInfo: what the token does not say about the person is asked for, and
// believed about this person alone.
func TestUserInfo(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	h.corp.Bare(true)
	b := h.browser()
	want(t, b.signIn(t, k, grace()), http.StatusSeeOther, "")
	if h.number(t, "SELECT COUNT(*) FROM users WHERE id = $1 AND email = $2 AND name = 'grace'", b.who(t), grace().Email) != 1 {
		t.Error("the user has not what userinfo says")
	}
	h.corp.Fault(providertest.OIDCUserInfo, providertest.Answer(http.StatusOK, "application/json", `{"sub":"another","email":"x@example.org","email_verified":true}`))
	want(t, h.browser().signIn(t, k, providertest.Person{ID: "u2"}), http.StatusUnauthorized, "did not confirm")
	h.corp.Fault("/stolen", func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	h.corp.Fault(providertest.OIDCUserInfo, providertest.Redirect(h.corp.URL+"/stolen"))
	want(t, h.browser().signIn(t, k, providertest.Person{ID: "u2"}), http.StatusServiceUnavailable, "status 302")
	h.corp.Fault(providertest.OIDCUserInfo, providertest.Broken)
	want(t, h.browser().signIn(t, k, providertest.Person{ID: "u2"}), http.StatusServiceUnavailable, "status 500")
}

// TestUserInfoInside: where the document says it is, the guard is asked as well.
func TestUserInfoInside(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	h.corp.Bare(true)
	document := maps.Clone(h.corp.Document())
	document["userinfo_endpoint"] = "http://169.254.169.254/latest/meta-data/"
	text, _ := json.Marshal(document)
	h.corp.Fault(providertest.OIDCDiscovery, providertest.Answer(http.StatusOK, "application/json", string(text)))
	want(t, h.browser().signIn(t, k, grace()), http.StatusServiceUnavailable, "not one this server may call")
}

// TestIssuerOfTheAnswer is RFC 9207: an answer that names another issuer is one
// of a mix-up.
func TestIssuerOfTheAnswer(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	k := h.kinds()[2]
	k.server.SignedIn(grace())
	for issuer, status := range map[string]int{h.corp.URL: http.StatusSeeOther, "https://evil.example": http.StatusUnauthorized} {
		b := h.browser()
		want(t, b.get(visit(t, k, b.begin(t, k))+"&iss="+url.QueryEscape(issuer)), status, "")
	}
}
