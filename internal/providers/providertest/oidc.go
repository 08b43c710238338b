package providertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// OIDC is an OpenID Connect provider with real keys.
type OIDC struct {
	*Server
	Now func() time.Time // of the tokens; nil: time.Now

	keysMu sync.Mutex
	rsa    *rsa.PrivateKey
	ec     *ecdsa.PrivateKey
	kid    string
	alg    string
	forge  func(header, claims map[string]any)
	bare   bool // tokens without claims about the person
}

// The paths of the OpenID Connect provider.
const (
	OIDCDiscovery = "/.well-known/openid-configuration"
	OIDCToken     = "/token"
	OIDCKeys      = "/keys"
	OIDCUserInfo  = "/userinfo"
)

// StartOIDC starts one that signs with RS256.
func StartOIDC(t testing.TB) *OIDC {
	o := &OIDC{alg: "RS256"}
	o.Server = start(t, map[string]http.HandlerFunc{
		OIDCDiscovery: o.discovery, "/authorize": o.authorize, OIDCToken: o.redeemCode, OIDCKeys: o.keys, OIDCUserInfo: o.userInfo,
	}, "certharbor-client", "oidc-secret:canary/5e90") // characters that Basic authentication must encode
	o.Rotate(t)
	return o
}

// Rotate replaces the keys, and their id.
func (o *OIDC) Rotate(t testing.TB) {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	o.rsa, o.ec, o.kid = rsaKey, ecKey, random()
}

// Sign chooses the algorithm: RS256, ES256, none, or HS256 with the public RSA
// key as the secret.
func (o *OIDC) Sign(alg string) {
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	o.alg = alg
}

// Forge changes header and claims of ID tokens before they are signed; nil:
// as they should be.
func (o *OIDC) Forge(f func(header, claims map[string]any)) {
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	o.forge = f
}

// Bare leaves what is known about the person to the userinfo endpoint.
func (o *OIDC) Bare(bare bool) {
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	o.bare = bare
}

// Document is the discovery document.
func (o *OIDC) Document() map[string]any {
	return map[string]any{
		"issuer": o.URL, "authorization_endpoint": o.URL + "/authorize", "token_endpoint": o.URL + OIDCToken, "jwks_uri": o.URL + OIDCKeys,
		"userinfo_endpoint": o.URL + OIDCUserInfo, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"}, "code_challenge_methods_supported": []string{"S256"},
	}
}

func (o *OIDC) discovery(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, "application/json", http.StatusOK, o.Document())
}

func (o *OIDC) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != o.ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		!strings.Contains(" "+q.Get("scope")+" ", " openid ") {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	o.grantCode(w, r, url.Values{"error": {"access_denied"}, "error_description": {Upstream}})
}

func (o *OIDC) redeemCode(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, word string) {
		writeJSON(w, "application/json", status, map[string]string{"error": word, "error_description": Upstream})
	}
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id) // RFC 6749 section 2.3.1
	secret, _ = url.QueryUnescape(secret)
	if id != o.ClientID || secret != o.ClientSecret {
		fail(http.StatusUnauthorized, "invalid_client")
		return
	}
	grant, wrong := o.redeem(r.FormValue("code"), r.FormValue("redirect_uri"), r.FormValue("code_verifier"), true)
	if wrong != codeGood {
		fail(http.StatusBadRequest, "invalid_grant")
		return
	}
	writeJSON(w, "application/json", http.StatusOK, map[string]any{
		"access_token": o.token(grant.who), "token_type": "Bearer", "expires_in": 300, "id_token": o.idToken(grant),
	})
}

func (o *OIDC) idToken(g *grant) string {
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	header := map[string]any{"alg": o.alg, "typ": "JWT", "kid": o.kid}
	claims := map[string]any{
		"iss": o.URL, "sub": g.who.ID, "aud": o.ClientID, "iat": now().Unix(), "exp": now().Add(5 * time.Minute).Unix(), "nonce": g.nonce,
	}
	if !o.bare {
		maps.Copy(claims, personal(g.who))
	}
	if o.forge != nil {
		o.forge(header, claims)
	}
	return o.sign(header, claims)
}

func personal(p Person) map[string]any {
	claims := map[string]any{}
	if p.Email != "" {
		claims["email"], claims["email_verified"] = p.Email, p.Verified
	}
	if p.Name != "" {
		claims["preferred_username"] = p.Name
	}
	maps.Copy(claims, p.Claims)
	return claims
}

func part(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(encoded)
}

func (o *OIDC) sign(header, claims map[string]any) string {
	text := part(header) + "." + part(claims)
	digest := sha256.Sum256([]byte(text))
	var signature []byte
	var err error
	switch o.alg {
	case "RS256":
		signature, err = rsa.SignPKCS1v15(rand.Reader, o.rsa, crypto.SHA256, digest[:])
	case "ES256":
		var r, s *big.Int
		r, s, err = ecdsa.Sign(rand.Reader, o.ec, digest[:])
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "HS256":
		der, _ := x509.MarshalPKIXPublicKey(&o.rsa.PublicKey)
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (o *OIDC) keys(w http.ResponseWriter, _ *http.Request) {
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	encode := base64.RawURLEncoding.EncodeToString
	point, err := o.ec.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err)
	}
	writeJSON(w, "application/json", http.StatusOK, map[string]any{"keys": []any{
		map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": o.kid, "n": encode(o.rsa.N.Bytes()), "e": encode(big.NewInt(int64(o.rsa.E)).Bytes())},
		map[string]any{"kty": "EC", "use": "sig", "alg": "ES256", "kid": o.kid, "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])},
	}})
}

func (o *OIDC) userInfo(w http.ResponseWriter, r *http.Request) {
	p, ok := o.holder(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	claims := personal(p)
	claims["sub"] = p.ID
	writeJSON(w, "application/json", http.StatusOK, claims)
}

// Token is a token with these claims, signed as ID tokens are.
func (o *OIDC) Token(claims map[string]any) string {
	o.keysMu.Lock()
	defer o.keysMu.Unlock()
	return o.sign(map[string]any{"alg": o.alg, "typ": "JWT"}, claims)
}
