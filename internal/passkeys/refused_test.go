package passkeys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// wrongs are what can be wrong with the answer of an authenticator that is
// signed by the right key all the same, and whether registration minds.
var wrongs = []struct {
	name   string
	change func(a *authenticator)
	reason string // in the audit log
}{
	{"other origin", func(a *authenticator) { a.origin = "https://certs.example.org.evil.example" }, "origin"},
	{"plain origin", func(a *authenticator) { a.origin = "http://certs.example.org" }, "origin"},
	{"other port", func(a *authenticator) { a.origin += ":8443" }, "origin"},
	{"a subdomain", func(a *authenticator) { a.origin = "https://x.certs.example.org" }, "origin"},
	{"other relying party", func(a *authenticator) { a.rpID = "evil.example" }, "RP Hash"},
	{"parent domain", func(a *authenticator) { a.rpID = "example.org" }, "RP Hash"},
	{"no user verification", func(a *authenticator) { a.flags = present }, "User verification"},
	{"no user presence", func(a *authenticator) { a.flags = verified }, "User presence"},
	{"backed up but not eligible", func(a *authenticator) { a.flags |= backedUp }, "Backup"},
	{"within a frame of another origin", func(a *authenticator) {
		a.change = func(c *clientData, data []byte) []byte { c.CrossOrigin = true; return data }
	}, "cross origin"},
	{"other ceremony", func(a *authenticator) {
		a.change = func(c *clientData, data []byte) []byte {
			c.Type = map[string]string{"webauthn.get": "webauthn.create", "webauthn.create": "webauthn.get"}[c.Type]
			return data
		}
	}, "ceremony"},
}

// wrongAssertions are further ones of assertions.
var wrongAssertions = []struct {
	name   string
	change func(a *authenticator)
	reason string
}{
	{"client data changed afterwards", func(a *authenticator) {
		a.after = func(body map[string]any) {
			r := body["response"].(map[string]any)
			r["clientDataJSON"] = text(append(bytesOf(body, "response", "clientDataJSON"), ' '))
		}
	}, "signature"},
	{"counter changed afterwards", func(a *authenticator) {
		a.after = func(body map[string]any) {
			data := bytesOf(body, "response", "authenticatorData")
			data[36]++
			response("authenticatorData", text(data))(body)
		}
	}, "signature"},
	{"no signature", func(a *authenticator) { a.after = response("signature", "") }, "signature"},
	{"signature of another key", func(a *authenticator) { a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }, "signature"},
	{"other user handle", func(a *authenticator) { a.handle = random(64) }, "handle"},
	{"unknown credential", func(a *authenticator) { a.id = random(32) }, "unknown"},
	{"became syncable", func(a *authenticator) { a.flags |= eligible }, "Backup Eligible"},
}

func TestRefusedAssertions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		owner, original := h.signedIn(t, h.ada), newAuthenticator(t, "ES256")
		owner.add(t, original)
		for _, wrong := range append(wrongs, wrongAssertions...) {
			for _, what := range []string{"login", "step-up"} {
				b, action := h.signedIn(t, h.ada), "session.step_up_refused"
				if what == "login" {
					b, action = h.browser(), "session.sign_in_refused"
				}
				before := h.audited(t, h.ada, action) + h.audited(t, 0, action)
				a := *original
				wrong.change(&a)
				options := b.options(t, what)
				w := b.post("/auth/webauthn/"+what+"/verify", a.get(options))
				checkRefusal(t, what+", "+wrong.name, w)
				if _, acr, _ := b.who(t); acr == "aal2" {
					t.Errorf("%s, %s: is at aal2", what, wrong.name)
				}
				if n := h.audited(t, h.ada, action) + h.audited(t, 0, action); n != before+1 {
					t.Errorf("%s, %s: %d audit entries more, want 1", what, wrong.name, n-before)
				}
				var detail string
				if err := db.Reader().QueryRowContext(t.Context(), "SELECT detail FROM audit_log WHERE action = $1 AND request_id = $2", action, w.Header().Get("X-Request-Id")).Scan(&detail); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(strings.ToLower(detail), strings.ToLower(wrong.reason)) {
					t.Errorf("%s, %s: the audit log says %s", what, wrong.name, detail)
				}
				// The challenge is gone, also for the right answer.
				right := *original
				checkRefusal(t, what+" again after "+wrong.name, b.post("/auth/webauthn/"+what+"/verify", right.get(options)))
				original.counter = max(original.counter, a.counter, right.counter)
			}
		}
		// Without the handle nobody says who signs in; a session knows it.
		nobody, stepping := h.browser(), h.signedIn(t, h.ada)
		for _, without := range []any{nil, ""} {
			original.after = response("userHandle", without)
			checkRefusal(t, "no handle", nobody.post("/auth/webauthn/login/verify", original.get(nobody.options(t, "login"))))
			want(t, stepping.post("/auth/webauthn/step-up/verify", original.get(stepping.options(t, "step-up"))), http.StatusOK, "aal2")
		}
	})
}

// checkRefusal: every refusal is the same.
func checkRefusal(t *testing.T, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	const text = `{"error":{"code":5018,"what":"The passkey was not accepted; ask for new options and try again, or sign in another way."}}`
	if w.Code != http.StatusUnauthorized || strings.TrimSpace(w.Body.String()) != text || len(w.Result().Cookies()) != 0 {
		t.Errorf("%s: %d %s %v", what, w.Code, w.Body, w.Result().Cookies())
	}
}

// TestChallenges: good for one answer, one purpose, one browser or session, and
// five minutes.
func TestChallenges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		owner, a := h.signedIn(t, h.ada), newAuthenticator(t, "EdDSA")
		owner.add(t, a)
		bobs := newAuthenticator(t, "ES256")
		other := h.signedIn(t, h.bob)
		other.add(t, bobs)
		login, stepUp := "/auth/webauthn/login/verify", "/auth/webauthn/step-up/verify"

		b := h.browser()
		checkRefusal(t, "made up", b.post(login, a.get(map[string]any{"challenge": text(random(32))})))
		options := b.options(t, "login")
		checkRefusal(t, "another browser", h.browser().post(login, a.get(options)))
		checkRefusal(t, "another browser in a ceremony of its own", func() *httptest.ResponseRecorder {
			thief := h.browser()
			thief.options(t, "login")
			return thief.post(login, a.get(options))
		}())
		checkRefusal(t, "a sign-in's as a step-up's", owner.post(stepUp, a.get(options)))
		answer := a.get(options)
		want(t, b.post(login, answer), http.StatusOK, ada)
		checkRefusal(t, "replayed", b.post(login, answer))
		checkRefusal(t, "used again", b.post(login, a.get(options)))

		options = owner.options(t, "step-up")
		checkRefusal(t, "another session of the user", h.signedIn(t, h.ada).post(stepUp, a.get(options)))
		checkRefusal(t, "another user's session", other.post(stepUp, bobs.get(options)))
		checkRefusal(t, "another user's passkey", owner.post(stepUp, bobs.get(options)))
		if n := h.audited(t, h.ada, "session.step_up_refused"); n != 1 {
			t.Errorf("%d entries of the foreign passkey", n)
		}
		checkRefusal(t, "a step-up's as a sign-in's", h.browser().post(login, a.get(owner.options(t, "step-up"))))
		want(t, owner.post("/auth/webauthn/register/verify", newAuthenticator(t, "ES256").create(withUser(owner.options(t, "step-up")))), http.StatusForbidden, "STEP_UP_REQUIRED")
		want(t, owner.post(stepUp, a.get(owner.options(t, "step-up"))), http.StatusOK, "")
		want(t, owner.post("/auth/webauthn/register/verify", newAuthenticator(t, "ES256").create(withUser(owner.options(t, "step-up")))), http.StatusBadRequest, "5000")

		late, intime := b.options(t, "login"), owner.options(t, "step-up")
		h.advance(5*time.Minute - time.Millisecond)
		want(t, owner.post(stepUp, a.get(intime)), http.StatusOK, "")
		h.advance(time.Millisecond)
		checkRefusal(t, "late", b.post(login, a.get(late)))
		if n := h.number(t, "SELECT COUNT(*) FROM passkey_challenges"); n == 0 {
			t.Error("nothing to sweep")
		}
		h.advance(5 * time.Minute)
		if err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := h.number(t, "SELECT COUNT(*) FROM passkey_challenges"); n != 0 {
			t.Errorf("%d challenges after the sweep", n)
		}
	})
}

func withUser(options map[string]any) map[string]any {
	options["user"] = map[string]any{"id": text(random(64))}
	return options
}

// TestOneOfManyWins: of the same assertion many times at once one signs in.
func TestOneOfManyWins(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		a := newAuthenticator(t, "ES256")
		h.signedIn(t, h.ada).add(t, a)
		b := h.browser()
		answer := a.get(b.options(t, "login"))
		var mu sync.Mutex
		var wg sync.WaitGroup
		in := 0
		for range 8 {
			wg.Go(func() {
				same := &browser{h: h, cookies: map[string]string{"__Host-certharbor_passkey": b.cookies["__Host-certharbor_passkey"]}}
				if w := same.post("/auth/webauthn/login/verify", answer); w.Code == http.StatusOK {
					mu.Lock()
					in++
					mu.Unlock()
				} else if w.Code != http.StatusUnauthorized {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if in != 1 {
			t.Errorf("%d signed in", in)
		}
	})
}

// TestCounter: a counter that does not grow is refused, on record, and shown;
// one that is ahead goes on.
func TestCounter(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		a := newAuthenticator(t, "ES256")
		a.counter = 100
		owner := h.signedIn(t, h.ada)
		made := owner.add(t, a)
		login := func(counter uint32) *httptest.ResponseRecorder {
			b := h.browser()
			a.counter = counter
			return b.post("/auth/webauthn/login/verify", a.get(b.options(t, "login")))
		}
		want(t, login(101), http.StatusOK, ada)
		for i, counter := range []uint32{101, 100, 1, 0} {
			checkRefusal(t, "went back", login(counter))
			if n := h.audited(t, h.ada, "passkey.clone_suspected"); n != int64(i)+1 {
				t.Errorf("%d entries of a clone, want %d", n, i+1)
			}
		}
		if n := h.number(t, "SELECT sign_count FROM passkeys WHERE id = $1", made.ID); n != 101 {
			t.Errorf("the stored counter is %d", n)
		}
		want(t, owner.call("GET", "/auth/webauthn/credentials", nil), http.StatusOK, `"clone_warning":true`)
		want(t, login(1<<32-1), http.StatusOK, ada)
		want(t, owner.call("GET", "/auth/webauthn/credentials", nil), http.StatusOK, `"clone_warning":true`)
		checkRefusal(t, "wrapped", login(0))
	})
}
