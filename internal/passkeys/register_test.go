package passkeys

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestCreationOptions(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	b, a := h.signedIn(t, h.ada), newAuthenticator(t, "ES256")
	options := b.options(t, "register")
	handle := bytesOf(options, "user", "id")
	if len(handle) != 64 {
		t.Errorf("the user handle has %d bytes", len(handle))
	}
	expected := fmt.Sprintf(`{"attestation":"none","authenticatorSelection":{"requireResidentKey":true,"residentKey":"required","userVerification":"required"},`+
		`"challenge":%q,"excludeCredentials":[],"pubKeyCredParams":[{"alg":-7,"type":"public-key"},{"alg":-8,"type":"public-key"},{"alg":-257,"type":"public-key"}],`+
		`"rp":{"id":"certs.example.org","name":"CertHarbor"},"timeout":300000,"user":{"displayName":"ada@example.org","id":%q,"name":"ada@example.org"}}`,
		options["challenge"], text(handle))
	if got := asJSON(options); got != expected {
		t.Errorf("got  %s\nwant %s", got, expected)
	}
	want(t, b.post("/auth/webauthn/register/verify", a.create(options)), http.StatusCreated, "")
	want(t, b.post("/auth/webauthn/step-up/verify", a.get(b.options(t, "step-up"))), http.StatusOK, "")
	again := b.options(t, "register")
	if got := asJSON(again["excludeCredentials"]); !strings.Contains(got, text(a.id)) {
		t.Errorf("a passkey is not excluded: %s", got)
	}
	if string(bytesOf(again, "user", "id")) != string(handle) {
		t.Error("the user has another handle")
	}
	if other := h.signedIn(t, h.bob).options(t, "register"); string(bytesOf(other, "user", "id")) == string(handle) {
		t.Error("two users have one handle")
	}
}

func TestRefusedRegistrations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		further := []struct {
			name   string
			change func(a *authenticator)
			reason string
		}{
			{"an attestation nobody asked for", func(a *authenticator) { a.format = "tpm" }, ""},
			{"an unknown attestation", func(a *authenticator) { a.format = "x" }, ""},
			{"packed without a signature", func(a *authenticator) { a.format = "packed" }, ""},
			{"weak RSA", func(a *authenticator) { a.useRSA(t, 1024) }, ""},
			{"huge RSA", func(a *authenticator) {
				a.useRSA(t, 2048)
				a.cose[-1] = append([]byte{1}, random(1024)...)
			}, ""},
			{"ES384", func(a *authenticator) { a.cose[3] = -35 }, ""},
			{"ES256 with another curve", func(a *authenticator) { a.cose[-1] = 2 }, ""},
			{"a point off the curve", func(a *authenticator) { a.cose[-2] = random(32) }, ""},
			{"RSA that says ES256", func(a *authenticator) { a.useRSA(t, 2048); a.cose[3] = -7 }, ""},
			{"other id within", func(a *authenticator) {
				a.after = func(body map[string]any) { body["id"], body["rawId"] = text(a.id[:31]), text(a.id[:31]) }
			}, ""},
			{"two ids", func(a *authenticator) { a.after = func(body map[string]any) { body["id"] = text(random(32)) } }, ""},
			{"an id too long", func(a *authenticator) { a.id = random(1024) }, ""},
			{"not CBOR", func(a *authenticator) { a.after = response("attestationObject", "AAAA") }, ""},
			{"empty", func(a *authenticator) { a.after = response("attestationObject", "") }, ""},
			{"not base64url", func(a *authenticator) { a.after = response("clientDataJSON", "!") }, ""},
			{"client data that is not JSON", func(a *authenticator) { a.after = response("clientDataJSON", "AAAA") }, ""},
			{"another type", func(a *authenticator) { a.after = func(body map[string]any) { body["type"] = "password" } }, ""},
			{"too large", func(a *authenticator) { a.after = response("attestationObject", strings.Repeat("A", 60000)) }, ""},
			{"a long name", func(a *authenticator) {
				a.after = func(body map[string]any) { body["name"] = strings.Repeat("x", 201) }
			}, ""},
			{"a name with a line break", func(a *authenticator) { a.after = func(body map[string]any) { body["name"] = "a\nb" } }, ""},
		}
		b := h.signedIn(t, h.ada)
		for _, wrong := range append(wrongs, further...) {
			a := newAuthenticator(t, "ES256")
			wrong.change(a)
			if w := b.post("/auth/webauthn/register/verify", a.create(b.options(t, "register"))); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":5000`) {
				t.Errorf("%s: %d %s", wrong.name, w.Code, w.Body)
			}
		}
		if n := h.number(t, "SELECT COUNT(*) FROM passkeys"); n != 0 {
			t.Fatalf("%d were stored", n)
		}
		// A challenge is good for one attempt, the right session and five minutes.
		a := newAuthenticator(t, "ES256")
		options := b.options(t, "register")
		verify := func(b *browser, options map[string]any) *httptest.ResponseRecorder {
			return b.post("/auth/webauthn/register/verify", a.create(options))
		}
		want(t, verify(h.signedIn(t, h.ada), options), http.StatusBadRequest, "5000")
		want(t, verify(h.signedIn(t, h.bob), options), http.StatusBadRequest, "5000")
		want(t, verify(h.browser(), options), http.StatusUnauthorized, "5018")
		a.flags = present
		want(t, verify(b, options), http.StatusBadRequest, "5000")
		a.flags = present | verified
		want(t, verify(b, options), http.StatusBadRequest, "5000")
		options = b.options(t, "register")
		h.advance(5 * time.Minute)
		want(t, verify(b, options), http.StatusBadRequest, "5000")
		want(t, verify(b, withUser(h.browser().options(t, "login"))), http.StatusBadRequest, "5000")
		want(t, verify(b, b.options(t, "register")), http.StatusCreated, "")
	})
}

// TestDuplicates: a credential belongs to one user, whoever comes second.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		a := newAuthenticator(t, "ES256")
		adas, bobs := h.signedIn(t, h.ada), h.signedIn(t, h.bob)
		again := adas.options(t, "register")
		adas.add(t, a)
		want(t, bobs.post("/auth/webauthn/register/verify", a.create(bobs.options(t, "register"))), http.StatusConflict, "registered already")
		want(t, adas.post("/auth/webauthn/register/verify", a.create(again)), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, adas.post("/auth/webauthn/step-up/verify", a.get(adas.options(t, "step-up"))), http.StatusOK, "")
		want(t, adas.post("/auth/webauthn/register/verify", a.create(adas.options(t, "register"))), http.StatusConflict, "registered already")
		if n := h.number(t, "SELECT COUNT(*) FROM passkeys WHERE user_id = $1", h.ada); n != 1 {
			t.Errorf("%d passkeys", n)
		}
	})
}

// TestAtMostTwenty: also when many are added at once.
func TestAtMostTwenty(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		b := h.stepped(t, h.ada)
		var bodies []any
		for range MaxPerUser + 5 {
			bodies = append(bodies, newAuthenticator(t, "EdDSA").create(b.options(t, "register")))
		}
		var wg sync.WaitGroup
		for _, body := range bodies {
			same := &browser{h: h, cookies: map[string]string{"__Host-certharbor_session": b.cookies["__Host-certharbor_session"]}}
			wg.Go(func() {
				if w := same.post("/auth/webauthn/register/verify", body); w.Code != http.StatusCreated && w.Code != http.StatusConflict {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if n := h.number(t, "SELECT COUNT(*) FROM passkeys"); n != MaxPerUser {
			t.Errorf("%d passkeys", n)
		}
		want(t, b.post("/auth/webauthn/register/options", nil), http.StatusConflict, "at most 20")
		want(t, b.call("GET", "/auth/webauthn/credentials?limit=3&offset=18", nil), http.StatusOK, `"meta":{"total":20,"offset":18,"limit":3}`)
	})
}

// stepped is a browser at aal2.
func (h *house) stepped(t *testing.T, userID int64) *browser {
	t.Helper()
	b := h.browser()
	h.inTx(t, func(tx *sqldb.Tx) error {
		cookies, _, err := h.people.SignIn(t.Context(), tx, userID, identity.Method{AMR: []string{"hwk", "user"}, ACR: "aal2"})
		b.cookies[cookies[0].Name] = cookies[0].Value
		return err
	})
	return b
}

// TestFreshProof: what adds or removes a passkey needs one of 15 minutes.
func TestFreshProof(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		b, a := h.signedIn(t, h.ada), newAuthenticator(t, "ES256")
		options := b.options(t, "register")
		h.advance(15*time.Minute + time.Millisecond)
		want(t, b.post("/auth/webauthn/register/options", nil), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, b.post("/auth/webauthn/register/verify", a.create(options)), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, b.post("/auth/webauthn/step-up/options", nil), http.StatusConflict, "no passkey")
		b = h.signedIn(t, h.ada)
		made := b.add(t, a)
		path := fmt.Sprintf("/auth/webauthn/credentials/%d", made.ID)
		// Now there is one, and the password does not do any more.
		want(t, b.post("/auth/webauthn/register/options", nil), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, b.call("DELETE", path, nil), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, b.post("/auth/webauthn/step-up/verify", a.get(b.options(t, "step-up"))), http.StatusOK, "")
		h.advance(15 * time.Minute)
		b.options(t, "register")
		h.advance(time.Millisecond)
		want(t, b.post("/auth/webauthn/register/options", nil), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, b.call("DELETE", path, nil), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, b.post("/auth/webauthn/step-up/verify", a.get(b.options(t, "step-up"))), http.StatusOK, "")
		want(t, h.stepped(t, h.bob).call("DELETE", path, nil), http.StatusNotFound, `{"error":{"code":5003,"what":"No such credential."}}`)
		want(t, h.stepped(t, h.bob).call("DELETE", "/auth/webauthn/credentials/999999", nil), http.StatusNotFound, `{"error":{"code":5003,"what":"No such credential."}}`)
		want(t, b.call("DELETE", path, nil), http.StatusNoContent, "")
	})
}

// TestLastWayIn: who has no password keeps a passkey, also when all are removed
// at once.
func TestLastWayIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		eve := h.person(t, "eve@example.org", "")
		b := h.stepped(t, eve)
		var paths []string
		for range 4 {
			paths = append(paths, fmt.Sprintf("/auth/webauthn/credentials/%d", b.add(t, newAuthenticator(t, "EdDSA")).ID))
		}
		var wg sync.WaitGroup
		for _, path := range paths {
			same := &browser{h: h, cookies: map[string]string{"__Host-certharbor_session": b.cookies["__Host-certharbor_session"]}}
			wg.Go(func() {
				if w := same.call("DELETE", path, nil); w.Code != http.StatusNoContent {
					if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "last way") {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				}
			})
		}
		wg.Wait()
		if n := h.number(t, "SELECT COUNT(*) FROM passkeys"); n != 1 {
			t.Errorf("%d passkeys are left", n)
		}
		if n := h.audited(t, eve, "passkey.remove"); n != 3 {
			t.Errorf("%d removals on record", n)
		}
	})
}

// TestTooManyChallenges: an address, and a user, can have so many made.
func TestTooManyChallenges(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.Challenges = identity.Limit{Max: 3, Window: time.Minute} })
	b := h.signedIn(t, h.ada)
	for range 3 {
		b.options(t, "login")
		b.options(t, "register")
	}
	for _, what := range []string{"login", "register"} {
		if w := want(t, b.post("/auth/webauthn/"+what+"/options", nil), http.StatusTooManyRequests, "5013"); w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if n := h.number(t, "SELECT COUNT(*) FROM passkey_challenges"); n != 6 {
		t.Errorf("%d challenges", n)
	}
	h.advance(time.Minute)
	b.options(t, "login")
}

func TestRelyingParty(t *testing.T) {
	t.Parallel()
	tests := []struct{ base, id, origin string }{
		{"https://certs.example.org", "certs.example.org", "https://certs.example.org"},
		{"https://Certs.Example.org:443", "certs.example.org", "https://certs.example.org"},
		{"https://certs.example.org:8443", "certs.example.org", "https://certs.example.org:8443"},
		{"http://localhost:8080", "localhost", "http://localhost:8080"},
		{"http://127.0.0.1:8080", "localhost", "http://localhost:8080"},
		{"http://[::1]:80", "localhost", "http://localhost"},
		{"http://127.0.0.1:443", "localhost", "http://localhost:443"},
		{"http://dev.localhost", "dev.localhost", "http://dev.localhost"},
		{"https://192.0.2.1", "", ""},
		{"https://[2001:db8::1]", "", ""},
		{"http://certs.example.org", "", ""},
		{"http://localhost.example.org", "", ""},
		{"https://intranet", "", ""},
		{"https://certs..example.org", "", ""},
		{"https://", "", ""},
		{"", "", ""},
		{"::", "", ""},
	}
	for _, tt := range tests {
		rp, missing := relyingPartyOf(tt.base)
		if rp.id != tt.id || rp.origin != tt.origin || (missing == nil) != (tt.id != "") {
			t.Errorf("%q: %+v, %v", tt.base, rp, missing)
		}
	}
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.BaseURL = "https://192.0.2.1" })
	b, a := h.signedIn(t, h.ada), newAuthenticator(t, "ES256")
	for _, what := range []string{"login", "register", "step-up"} {
		want(t, b.post("/auth/webauthn/"+what+"/options", nil), http.StatusConflict, "base-url")
	}
	made := a.create(map[string]any{"challenge": text(random(32)), "user": map[string]any{"id": text(random(64))}})
	want(t, b.post("/auth/webauthn/register/verify", made), http.StatusConflict, "base-url")
	want(t, b.post("/auth/webauthn/login/verify", a.get(map[string]any{"challenge": text(random(32))})), http.StatusConflict, "base-url")
	want(t, b.post("/auth/webauthn/step-up/verify", a.get(map[string]any{"challenge": text(random(32))})), http.StatusConflict, "base-url")
	want(t, b.call("GET", "/auth/webauthn/credentials", nil), http.StatusOK, `"data":[]`)
}
