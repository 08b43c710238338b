package passkeys

import (
	"encoding/json"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

// bare is the area without a database: what parses and verifies.
func bare(t testing.TB) *Service {
	t.Helper()
	s := NewService(Deps{BaseURL: origin})
	if err := s.available(); err != nil {
		t.Fatal(err)
	}
	return s
}

func creation() map[string]any {
	return map[string]any{"challenge": text(make([]byte, 32)), "user": map[string]any{"id": text(make([]byte, 64))}}
}

// FuzzCreatedCredential sends bodies of register/verify through all that looks
// at them. What is accepted must be a whole passkey.
func FuzzCreatedCredential(f *testing.F) {
	s, handle := bare(f), make([]byte, 64)
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		f.Add([]byte(asJSON(newAuthenticator(f, algorithm).create(creation()))))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b CreatedCredential
		if json.Unmarshal(body, &b) != nil {
			return
		}
		parsed, err := b.parse()
		if err != nil {
			mustBeFault(t, err)
			return
		}
		r, refusal := s.attested(parsed, handle)
		if refusal != nil {
			mustBeFault(t, refusal)
			return
		}
		if algorithmName(r.Algorithm) == "" || len(r.CredentialID) == 0 || len(r.CredentialID) > maxID || r.authenticatorFlags()&(present|verified) != present|verified {
			t.Errorf("accepted %+v", r)
		}
	})
}

// FuzzAttestationObject reaches what is behind base64url.
func FuzzAttestationObject(f *testing.F) {
	s, handle := bare(f), make([]byte, 64)
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		body := newAuthenticator(f, algorithm).create(creation())
		f.Add(bytesOf(body, "response", "clientDataJSON"), bytesOf(body, "response", "attestationObject"), bytesOf(body, "rawId"))
	}
	f.Fuzz(func(t *testing.T, client, object, id []byte) {
		b := CreatedCredential{
			ID: text(id), RawID: text(id), Type: "public-key",
			Response: createdResponse{ClientDataJSON: text(client), AttestationObject: text(object)},
		}
		parsed, err := b.parse()
		if err != nil {
			mustBeFault(t, err)
			return
		}
		if _, refusal := s.attested(parsed, handle); refusal != nil {
			mustBeFault(t, refusal)
		}
	})
}

// FuzzAssertedCredential sends bodies of login/verify through all that looks at
// them. Nothing but what was signed may be accepted, and nobody signs here.
func FuzzAssertedCredential(f *testing.F) {
	s, handle := bare(f), make([]byte, 64)
	rows := map[string]passkeyRow{}
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		a := newAuthenticator(f, algorithm)
		a.handle = handle
		f.Add([]byte(asJSON(a.get(creation()))), algorithm)
		// The row is of another key: every assertion is a forgery.
		other := newAuthenticator(f, algorithm)
		other.id = a.id
		rows[algorithm] = registered(f, s, other)
	}
	f.Fuzz(func(t *testing.T, body []byte, algorithm string) {
		r, known := rows[algorithm]
		var b AssertedCredential
		if !known || json.Unmarshal(body, &b) != nil {
			return
		}
		parsed, err := b.parse()
		if err != nil {
			mustBeFault(t, err)
			return
		}
		r.CredentialID = parsed.RawID
		if verified, err := s.verify(r, handle, parsed); err == nil {
			t.Errorf("a forgery was accepted: %+v", verified)
		} else if reason(err) == "" {
			t.Errorf("no reason for %v", err)
		}
	})
}

// FuzzAssertedParts is FuzzAssertedCredential behind base64url.
func FuzzAssertedParts(f *testing.F) {
	s, handle := bare(f), make([]byte, 64)
	rows := []passkeyRow{}
	for i, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		a := newAuthenticator(f, algorithm)
		a.handle = handle
		body := a.get(creation())
		f.Add(bytesOf(body, "response", "clientDataJSON"), bytesOf(body, "response", "authenticatorData"), bytesOf(body, "response", "signature"), uint8(i))
		rows = append(rows, registered(f, s, newAuthenticator(f, algorithm)))
	}
	f.Fuzz(func(t *testing.T, client, authData, signature []byte, which uint8) {
		r := rows[int(which)%len(rows)]
		b := AssertedCredential{
			ID: text(r.CredentialID), RawID: text(r.CredentialID), Type: "public-key",
			Response: assertedResponse{ClientDataJSON: text(client), AuthenticatorData: text(authData), Signature: text(signature)},
		}
		parsed, err := b.parse()
		if err != nil {
			mustBeFault(t, err)
			return
		}
		if verified, err := s.verify(r, handle, parsed); err == nil {
			t.Errorf("a forgery was accepted: %+v", verified)
		}
	})
}

// registered is the row of an authenticator's passkey.
func registered(t testing.TB, s *Service, a *authenticator) passkeyRow {
	t.Helper()
	var b CreatedCredential
	if err := json.Unmarshal([]byte(asJSON(a.create(creation()))), &b); err != nil {
		t.Fatal(err)
	}
	parsed, err := b.parse()
	if err != nil {
		t.Fatal(err)
	}
	r, refusal := s.attested(parsed, make([]byte, 64))
	if refusal != nil {
		t.Fatal(refusal)
	}
	return r
}

func mustBeFault(t *testing.T, err error) {
	t.Helper()
	if !fault.Is(err, fault.CodeInvalid) {
		t.Errorf("%v is no 5000", err)
	}
}
