package providers

import (
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func grace() providertest.Person {
	return providertest.Person{ID: "4711", Name: "grace", Email: "grace@example.org", Verified: true}
}

// TestSignInMakesAUserOnce: an account that nobody knows becomes a user, and is
// the same user ever after, whatever it is called by then.
func TestSignInMakesAUserOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, k := range h.kinds() {
			b, person := h.browser(), grace()
			person.Email = k.code + "@example.org"
			w := want(t, b.signIn(t, k, person), http.StatusSeeOther, "")
			if to := w.Header().Get("Location"); to != "/console" {
				t.Errorf("%s: to %s", k.code, to)
			}
			if first := w.Result().Cookies()[0]; first.Name != "__Host-certharbor_session" || !first.HttpOnly || !first.Secure {
				t.Errorf("%s: first cookie %v", k.code, first)
			}
			user := b.who(t)
			if user == 0 || user == h.ada || user == h.bob || len(b.cookies) != 1 {
				t.Fatalf("%s: user %d, cookies %v", k.code, user, b.cookies)
			}
			if n := h.number(t, "SELECT COUNT(*) FROM users WHERE id = $1 AND status = 'ACTIVE' AND password = '' AND email = $2", user,
				map[bool]string{true: "", false: person.Email}[k.code == "weixin"]); n != 1 {
				t.Errorf("%s: the user is not as it should be", k.code)
			}
			if bound := b.bindings(t); len(bound) != 1 || bound[0].Provider != k.code || bound[0].Subject != "4711" || bound[0].Name != "grace" {
				t.Errorf("%s: %+v", k.code, bound)
			}
			person.Name, person.Email = "renamed", ada // names and addresses change hands
			again := h.browser()
			want(t, again.signIn(t, k, person), http.StatusSeeOther, "")
			if again.who(t) != user || again.bindings(t)[0].Name != "renamed" {
				t.Errorf("%s: another user %d after a change of name", k.code, again.who(t))
			}
			stranger := h.browser()
			want(t, stranger.signIn(t, k, providertest.Person{ID: "4712", Name: "grace"}), http.StatusSeeOther, "")
			if stranger.who(t) == user {
				t.Errorf("%s: the name alone signed in", k.code)
			}
			for action, n := range map[string]int64{"session.sign_in": 2, "user.create": 1, "user.bind": 1} {
				if got := h.audited(t, user, action); got != n {
					t.Errorf("%s: %s is in the log %d times, want %d", k.code, action, got, n)
				}
			}
		}
	})
}

// TestIdentitiesAreNamespacedPerProvider is OWASP ASVS 6.8.1: one id at several
// providers is several people.
func TestIdentitiesAreNamespacedPerProvider(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		seen := map[int64]string{}
		for _, k := range h.kinds() {
			b := h.browser()
			want(t, b.signIn(t, k, providertest.Person{ID: "4711", Name: "same"}), http.StatusSeeOther, "")
			if other, ok := seen[b.who(t)]; ok {
				t.Errorf("%s and %s are one user", k.code, other)
			}
			seen[b.who(t)] = k.code
		}
		// The same code for another provider is another provider: no identity of
		// the old one signs in.
		moved := build(t, db)
		for _, k := range moved.kinds() {
			b := moved.browser()
			want(t, b.signIn(t, k, providertest.Person{ID: "4711", Name: "same"}), http.StatusSeeOther, "")
			if k.code != "weixin" && seen[b.who(t)] != "" {
				t.Errorf("%s at another address signed in the user of the first", k.code)
			}
		}
	})
}

func TestBindAndUnbind(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, k := range h.kinds() {
			k.server.SignedIn(grace())
			b := h.signedIn(t, h.ada)
			want(t, b.get(visit(t, k, b.beginBinding(t, k))), http.StatusSeeOther, "")
			if bound := b.bindings(t); len(bound) == 0 || bound[len(bound)-1].Provider != k.code || bound[len(bound)-1].Subject != "4711" {
				t.Fatalf("%s: %+v", k.code, bound)
			}
			want(t, b.get(visit(t, k, b.beginBinding(t, k))), http.StatusSeeOther, "") // once more changes nothing
			in := h.browser()
			want(t, in.signIn(t, k, grace()), http.StatusSeeOther, "")
			if in.who(t) != h.ada {
				t.Errorf("%s: signed in as %d", k.code, in.who(t))
			}
			// Somebody else cannot have it, and Ada cannot have a second.
			other := h.signedIn(t, h.bob)
			want(t, other.get(visit(t, k, other.beginBinding(t, k))), http.StatusConflict, "somebody else")
			k.server.SignedIn(providertest.Person{ID: "5000", Name: "second"})
			want(t, b.get(visit(t, k, b.beginBinding(t, k))), http.StatusConflict, "unbind it first")
			if len(other.bindings(t)) != 0 || h.audited(t, h.bob, "user.bind_refused") == 0 || h.audited(t, h.ada, "user.bind_refused") == 0 {
				t.Errorf("%s: after the refusals", k.code)
			}
		}
		b := h.signedIn(t, h.ada)
		for _, k := range h.kinds() {
			want(t, b.call("DELETE", "/auth/third-party-bindings/"+k.code, nil), http.StatusNoContent, "")
			want(t, b.call("DELETE", "/auth/third-party-bindings/"+k.code, nil), http.StatusNotFound, "No such binding.")
			in := h.browser()
			want(t, in.signIn(t, k, providertest.Person{ID: "4711"}), http.StatusSeeOther, "")
			if in.who(t) == h.ada {
				t.Errorf("%s signs in after it was unbound", k.code)
			}
		}
		if n := h.letters.Load(); n != 6 {
			t.Errorf("%d letters to the owner", n)
		}
		if h.audited(t, h.ada, "user.bind") != 3 || h.audited(t, h.ada, "user.unbind") != 3 {
			t.Error("the log does not have every binding and its end")
		}
	})
}

// TestBindingNeedsAFreshProof: decisions.md section 2.
func TestBindingNeedsAFreshProof(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	b := h.signedIn(t, h.ada)
	h.advance(16 * 60_000_000_000)
	for _, k := range h.kinds() {
		want(t, b.call("POST", "/auth/third-party-bindings/"+k.code, nil), http.StatusForbidden, "STEP_UP_REQUIRED")
	}
	want(t, h.browser().call("POST", "/auth/third-party-bindings/github", nil), http.StatusUnauthorized, "5018")
}

// TestEqualPathways is OWASP ASVS 6.3.4: whichever way somebody comes in, the
// session is at aal1 like that of a password, and what needs a passkey needs it.
func TestEqualPathways(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.Settings.Solana = true })
	browsers := map[string]*browser{}
	for _, k := range h.kinds() {
		browsers[k.code] = h.browser()
		want(t, browsers[k.code].signIn(t, k, providertest.Person{ID: "1"}), http.StatusSeeOther, "")
	}
	w := newWallet(1)
	browsers["wallet"] = h.browser()
	want(t, browsers["wallet"].answer(w.address, w.sign(browsers["wallet"].ask(t, w))), http.StatusOK, "")
	for name, b := range browsers {
		if status := want(t, b.get("/auth/status"), http.StatusOK, `"acr":"aal1"`); !strings.Contains(status.Body.String(), `"mfa":false`) {
			t.Errorf("%s: %s", name, status.Body)
		}
		h.passkey.Store(false)
		want(t, b.call("POST", "/auth/third-party-bindings/corp", nil), http.StatusOK, "url")
		h.passkey.Store(true)
		want(t, b.call("POST", "/auth/third-party-bindings/corp", nil), http.StatusForbidden, `"acr":"aal2"`)
	}
}

// TestDisabledUser: the one 5018 of every refused sign-in.
func TestDisabledUser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		k := h.kinds()[0]
		b := h.browser()
		want(t, b.signIn(t, k, grace()), http.StatusSeeOther, "")
		user := b.who(t)
		h.inTx(t, func(tx *sqldb.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE users SET status = 'DISABLED' WHERE id = $1", user)
			return err
		})
		w := want(t, h.browser().signIn(t, k, grace()), http.StatusUnauthorized, "5018")
		if !strings.Contains(w.Body.String(), "cannot sign in") || h.audited(t, user, "session.sign_in_refused") != 1 {
			t.Errorf("%s", w.Body)
		}
	})
}

// TestProviders lists what there is, without secrets.
func TestProviders(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	w := want(t, h.browser().get("/auth/providers"), http.StatusOK, "")
	list := data[[]Info](t, w)
	if len(list) != 4 || list[2].URL != "/auth/oidc/corp" || list[2].Title != "Corp" || strings.Contains(w.Body.String(), "canary") || strings.Contains(w.Body.String(), "issuer") {
		t.Errorf("%s", w.Body)
	}
	for _, path := range []string{"/auth/oidc/nobody", "/auth/oidc/github", "/auth/oidc/nobody/callback", "/auth/oidc/solana"} {
		want(t, h.browser().get(path), http.StatusNotFound, "settings github, weixin, oidc")
	}
	none := build(t, dbtest.SQLite(t), func(d *Deps) { d.Settings = Settings{} })
	for _, path := range []string{"/auth/github", "/auth/weixin", "/auth/github/callback", "/auth/solana?address=11111111111111111111111111111111"} {
		want(t, none.browser().get(path), http.StatusNotFound, "settings github, weixin, oidc and solana")
	}
}
