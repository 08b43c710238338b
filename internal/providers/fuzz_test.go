package providers

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// FuzzIDToken: of all that a provider may call an ID token, the one that was
// signed is accepted, and means what it says.
func FuzzIDToken(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	part := base64.RawURLEncoding.EncodeToString
	sign := func(header, claims string) string {
		text := part([]byte(header)) + "." + part([]byte(claims))
		return text + "." + part(ed25519.Sign(key, []byte(text)))
	}
	const good = `{"iss":"https://id.example.org","aud":"client","sub":"4711","exp":1700000300,"nonce":"n","email":"a@example.org","email_verified":true}`
	token := sign(`{"alg":"EdDSA"}`, good)
	parts := strings.Split(token, ".")
	for _, seed := range []string{
		token, "", "..", parts[0] + "." + parts[1] + ".", part([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", sign(`{"alg":"HS256"}`, good),
		sign(`{"alg":"EdDSA"}`, strings.Replace(good, `"n"`, `"m"`, 1)), sign(`{"alg":"EdDSA"}`, `{"aud":["client","x"]}`), token + "." + parts[2],
		`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
	} {
		f.Add(seed)
	}
	o := &openID{settings: OIDC{Name: "corp", Title: "Corp", Issuer: "https://id.example.org", ClientID: "client"}}
	d := &discovered{verifier: oidc.NewVerifier(o.settings.Issuer, &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key.Public()}}, &oidc.Config{
		ClientID: "client", SupportedSigningAlgs: algorithms, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) },
	})}
	if _, err := o.verify(f.Context(), d, secrets{nonce: "n"}, token); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := o.verify(t.Context(), d, secrets{nonce: "n"}, raw)
		if err == nil && (c.Subject != "4711" || c.Email != "a@example.org" || !bool(c.EmailVerified)) {
			t.Errorf("%q was accepted as %+v", raw, c)
		}
	})
}
