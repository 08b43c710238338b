package passkeys

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestLifeOfAPasskey: added, used to sign in and to step up, removed.
func TestLifeOfAPasskey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
			t.Run(algorithm, func(t *testing.T) { live(t, build(t, db), algorithm) })
			clean(t, db)
		}
	})
}

func clean(t *testing.T, db *sqldb.DB) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DELETE FROM users")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func live(t *testing.T, h *house, algorithm string) {
	t.Helper()
	b, a := h.signedIn(t, h.ada), newAuthenticator(t, algorithm)
	body := a.create(b.options(t, "register"))
	body["name"] = " Ada's phone "
	made := data[Passkey](t, want(t, b.post("/auth/webauthn/register/verify", body), http.StatusCreated, ""))
	expected := Passkey{
		ID: made.ID, Name: "Ada's phone", CredentialID: text(a.id), Algorithm: algorithm, AAGUID: "00000000-0000-0000-0000-000000000000",
		Transports: []string{"hybrid", "internal"}, CreatedAt: h.ms.Load(),
	}
	if got, want := asJSON(made), asJSON(expected); got != want {
		t.Errorf("made\n%s\nwant\n%s", got, want)
	}
	if id, acr, _ := b.who(t); id != h.ada || acr != "aal1" {
		t.Errorf("after adding: user %d, %s", id, acr)
	}
	want(t, b.post("/auth/logout", nil), http.StatusNoContent, "")

	h.advance(time.Hour)
	w := want(t, b.post("/auth/webauthn/login/verify", a.get(b.options(t, "login"))), http.StatusOK, `"email":"ada@example.org","roles":[]`)
	if got := w.Result().Cookies(); len(got) != 2 || got[0].Name != "__Host-certharbor_session" || got[1].Name != "__Host-certharbor_passkey" || got[1].MaxAge >= 0 {
		t.Errorf("cookies of a sign-in: %v", got)
	}
	id, acr, amr := b.who(t)
	if id != h.ada || acr != "aal2" || !slices.Equal(amr, []string{"hwk", "user", "mfa"}) {
		t.Errorf("signed in as %d, %s, %v", id, acr, amr)
	}
	list := data[[]Passkey](t, want(t, b.call("GET", "/auth/webauthn/credentials", nil), http.StatusOK, `"meta":{"total":1,"offset":0,"limit":100}`))
	if expected.LastUsedAt = h.ms.Load(); len(list) != 1 || asJSON(list[0]) != asJSON(expected) {
		t.Errorf("list %s\nwant %s", asJSON(list), asJSON(expected))
	}

	second := h.signedIn(t, h.ada)
	path := "/auth/webauthn/credentials/" + asJSON(made.ID)
	want(t, second.call("DELETE", path, nil), http.StatusForbidden, "STEP_UP_REQUIRED")
	before := second.cookies["__Host-certharbor_session"]
	options := second.options(t, "step-up")
	if allowed := asJSON(options["allowCredentials"]); allowed != `[{"id":"`+text(a.id)+`","transports":["hybrid","internal"],"type":"public-key"}]` {
		t.Errorf("allowed: %s", allowed)
	}
	want(t, second.post("/auth/webauthn/step-up/verify", a.get(options)), http.StatusOK, `{"data":{"amr":["hwk","user","mfa"],"acr":"aal2"}}`)
	id, acr, amr = second.who(t)
	if id != h.ada || acr != "aal2" || !slices.Contains(amr, "pwd") || !slices.Contains(amr, "hwk") || second.cookies["__Host-certharbor_session"] == before {
		t.Errorf("stepped up: %d, %s, %v, cookie rotated: %v", id, acr, amr, second.cookies["__Host-certharbor_session"] != before)
	}
	want(t, second.call("DELETE", path, nil), http.StatusNoContent, "")
	want(t, second.call("DELETE", path, nil), http.StatusNotFound, `"No such credential."`)
	want(t, b.call("GET", "/auth/webauthn/credentials", nil), http.StatusOK, `{"data":[],"meta"`)
	want(t, h.browser().post("/auth/webauthn/login/verify", a.get(h.browser().options(t, "login"))), http.StatusUnauthorized, "5018")
	for action, n := range map[string]int64{"passkey.add": 1, "passkey.remove": 1, "session.step_up": 1, "session.sign_in": 3, "session.sign_in_refused": 0} {
		if got := h.audited(t, h.ada, action); got != n {
			t.Errorf("%s is %d times in the audit log, want %d", action, got, n)
		}
	}
	var told []string
	for _, m := range h.letters.sent {
		told = append(told, m.To+": "+m.Letter.Subject)
		if body := m.Letter.Paragraphs[0]; !strings.Contains(body, "Ada's phone") || !strings.Contains(body, origin) {
			t.Errorf("the letter says: %s", body)
		}
	}
	if want := []string{ada + ": A passkey was added", ada + ": A passkey was removed"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func asJSON(v any) string {
	out, _ := json.Marshal(v)
	return string(out)
}

// TestVirtualWebAuthn: another's implementation of authenticators gets along
// with ours, self attestation included.
func TestVirtualWebAuthn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for id, kind := range map[int64]virtualwebauthn.KeyType{h.ada: virtualwebauthn.KeyTypeEC2, h.bob: virtualwebauthn.KeyTypeRSA} {
			rp := virtualwebauthn.RelyingParty{ID: "certs.example.org", Name: "CertHarbor", Origin: origin}
			credential := virtualCredential(t, kind)
			b := h.signedIn(t, id)
			created, err := virtualwebauthn.ParseAttestationOptions(asJSON(b.options(t, "register")))
			if err != nil {
				t.Fatal(err)
			}
			device := virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{
				UserHandle: []byte(created.UserID), BackupEligible: true, BackupState: true,
			})
			body := json.RawMessage(virtualwebauthn.CreateAttestationResponse(rp, device, credential, *created))
			made := data[Passkey](t, want(t, b.post("/auth/webauthn/register/verify", body), http.StatusCreated, ""))
			if !made.Synced || made.Name != "Passkey" || made.AAGUID == "00000000-0000-0000-0000-000000000000" {
				t.Errorf("made %+v", made)
			}
			anonymous := h.browser()
			asked, err := virtualwebauthn.ParseAssertionOptions(asJSON(anonymous.options(t, "login")))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // an authenticator that does not count, used twice
				body = json.RawMessage(virtualwebauthn.CreateAssertionResponse(rp, device, credential, *asked))
				want(t, anonymous.post("/auth/webauthn/login/verify", body), http.StatusOK, fmt.Sprintf(`"id":%d,`, id))
				if _, acr, amr := anonymous.who(t); acr != "aal2" || !slices.Contains(amr, "swk") {
					t.Errorf("signed in at %s by %v", acr, amr)
				}
				if asked, err = virtualwebauthn.ParseAssertionOptions(asJSON(anonymous.options(t, "login"))); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// virtualCredential makes a credential. The library drops leading zeros of a
// coordinate, which RFC 9053 section 7.1.1 does not allow, so such keys are passed over.
func virtualCredential(t *testing.T, kind virtualwebauthn.KeyType) virtualwebauthn.Credential {
	t.Helper()
	for {
		credential := virtualwebauthn.NewCredential(kind)
		if kind != virtualwebauthn.KeyTypeEC2 {
			return credential
		}
		key, err := x509.ParsePKCS8PrivateKey(credential.Key.Data)
		if err != nil {
			t.Fatal(err)
		}
		if point, err := key.(*ecdsa.PrivateKey).PublicKey.Bytes(); err == nil && point[1] != 0 && point[33] != 0 {
			return credential
		}
	}
}
