package providers

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func mallory() providertest.Person {
	return providertest.Person{ID: "666", Name: "mallory", Email: "mallory@example.org", Verified: true}
}

func parameter(t testing.TB, path, name string) string {
	t.Helper()
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}

// TestThreats16OAuthFixation is scenario 16 of threats.md and OWASP ASVS 10.1.2:
// state and code belong to the browser that began, once.
func TestThreats16OAuthFixation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, k := range h.kinds() {
			const notBegun = "not begun in this browser"
			refusals := h.audited(t, 0, "session.sign_in_refused")
			attacker := h.browser()
			k.server.SignedIn(mallory())
			link := visit(t, k, attacker.begin(t, k))
			calls := k.server.Requests(k.tokenPath)

			// Sent to somebody: with nothing, in the middle of an own sign-in, and
			// signed in.
			for _, victim := range []*browser{h.browser(), h.signedIn(t, h.ada)} {
				before := victim.who(t)
				want(t, victim.get(link), http.StatusUnauthorized, notBegun)
				if victim.who(t) != before {
					t.Errorf("%s: the attacker's answer changed who the victim is", k.code)
				}
			}
			// It has been used up by that, also for the attacker.
			want(t, attacker.get(link), http.StatusUnauthorized, notBegun)
			if k.server.Requests(k.tokenPath) != calls {
				t.Errorf("%s: the provider was asked", k.code)
			}
			if n := h.audited(t, 0, "session.sign_in_refused") - refusals; n != 1 {
				t.Errorf("%s: recorded %d times", k.code, n)
			}

			// The attacker's code with the victim's own state is refused by the
			// provider where there is PKCE, and by the nonce.
			if k.code != "weixin" {
				link = visit(t, k, attacker.begin(t, k))
				victim := h.browser()
				k.server.SignedIn(grace())
				own := visit(t, k, victim.begin(t, k))
				mixed := strings.Replace(own, parameter(t, own, "code"), parameter(t, link, "code"), 1)
				want(t, victim.get(mixed), http.StatusUnauthorized, "did not confirm")
				if victim.who(t) != 0 {
					t.Errorf("%s: signed in with the attacker's code", k.code)
				}
			}

			// A callback twice.
			b := h.browser()
			k.server.SignedIn(grace())
			own := visit(t, k, b.begin(t, k))
			cookies := maps.Clone(b.cookies)
			if k.code == "github" {
				want(t, b.get(own), http.StatusSeeOther, "")
			} else {
				b.get(own)
			}
			want(t, b.get(own), http.StatusUnauthorized, notBegun)
			want(t, (&browser{h: h, cookies: cookies}).get(own), http.StatusUnauthorized, notBegun)

			// States that were never given out, and those of another provider.
			for _, state := range []string{"", "x", strings.Repeat("0", 64), strings.Repeat("9", 5000), "%27", "%ff", parameter(t, own, "state")} {
				want(t, b.get(k.path+"/callback?code=x&state="+state), http.StatusUnauthorized, notBegun)
			}
			for _, other := range h.kinds() {
				if other.code != k.code {
					b := h.browser()
					own := visit(t, k, b.begin(t, k))
					want(t, b.get(strings.Replace(own, k.path, other.path, 1)), http.StatusUnauthorized, notBegun)
				}
			}
		}
	})
}

// TestThreats16BindingFixation: nobody can be made to bind the attacker's
// account, and a sign-in is never a binding.
func TestThreats16BindingFixation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, k := range h.kinds() {
			k.server.SignedIn(mallory())
			attacker, victim := h.signedIn(t, h.bob), h.signedIn(t, h.ada)
			link := visit(t, k, attacker.beginBinding(t, k))
			want(t, victim.get(link), http.StatusUnauthorized, "not begun in this browser")
			// Even with the attacker's cookie planted: the session is another.
			link = visit(t, k, attacker.beginBinding(t, k))
			victim.cookies["__Host-certharbor_login"] = attacker.cookies["__Host-certharbor_login"]
			want(t, victim.get(link), http.StatusUnauthorized, "not begun in this browser")
			// The attacker's sign-in in the victim's browser binds nothing.
			link = visit(t, k, h.browser().begin(t, k))
			want(t, victim.get(link), http.StatusUnauthorized, "not begun in this browser")
			if n := h.number(t, "SELECT COUNT(*) FROM provider_bindings"); n != 0 {
				t.Fatalf("%s: %d bindings", k.code, n)
			}
			// A binding that was begun ends with its session.
			link = visit(t, k, victim.beginBinding(t, k))
			want(t, victim.call("POST", "/auth/logout", nil), http.StatusNoContent, "")
			want(t, victim.get(link), http.StatusUnauthorized, "not begun in this browser")
		}
	})
}

// TestThreats16EmailNeverSignsIn is scenario 16 again, and CertMate #357: an
// address that a provider names, verified or not, in whatever claim, from
// whatever issuer, neither signs in nor links.
func TestThreats16EmailNeverSignsIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, k := range h.kinds() {
			for name, person := range map[string]providertest.Person{
				"verified":               {ID: "1001", Name: "m", Email: ada, Verified: true},
				"in other letters":       {ID: "1002", Name: "m", Email: strings.ToUpper(ada), Verified: true},
				"unverified":             {ID: "1003", Name: "m", Email: ada},
				"as the name":            {ID: "1004", Name: ada},
				"as a further claim":     {ID: "1005", Claims: map[string]any{"mail": ada, "upn": ada, "emails": []string{ada}, "email_verified": true}},
				"as a text that is true": {ID: "1006", Claims: map[string]any{"email": ada, "email_verified": "true"}},
				"as a number that is 1":  {ID: "1007", Claims: map[string]any{"email": ada, "email_verified": 1}},
			} {
				b := h.browser()
				w := b.signIn(t, k, person)
				if b.who(t) == h.ada || w.Code == http.StatusConflict && b.who(t) != 0 {
					t.Errorf("%s, %s: signed in as %d: %s", k.code, name, b.who(t), w.Body)
				}
				if w.Code == http.StatusConflict {
					want(t, w, http.StatusConflict, "sign in to it first and bind")
				} else {
					want(t, w, http.StatusSeeOther, "")
				}
			}
		}
		if n := h.number(t, "SELECT COUNT(*) FROM provider_bindings WHERE user_id = $1", h.ada); n != 0 {
			t.Errorf("%d bindings of the owner of the address", n)
		}
		if n := h.number(t, "SELECT COUNT(*) FROM users WHERE email = $1", ada); n != 1 {
			t.Errorf("%d users have the address", n)
		}
		if h.audited(t, 0, "session.sign_in_refused") == 0 {
			t.Error("no refusal was recorded")
		}
	})
}

// TestCertMate357SameEmailOtherIssuer: the address of somebody who signed in
// through one provider is worth nothing at another, the same id neither.
func TestCertMate357SameEmailOtherIssuer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		github, corp := h.kinds()[0], h.kinds()[2]
		owner := h.browser()
		want(t, owner.signIn(t, github, grace()), http.StatusSeeOther, "")
		thief := h.browser()
		want(t, thief.signIn(t, corp, grace()), http.StatusConflict, "sign in to it first and bind")
		if thief.who(t) != 0 || len(owner.bindings(t)) != 1 {
			t.Error("the other issuer got in")
		}
	})
}

// TestUnverifiedAddressIsNotTaken: nor does it keep its owner from registering.
func TestUnverifiedAddressIsNotTaken(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	for _, k := range h.kinds() {
		b := h.browser()
		want(t, b.signIn(t, k, providertest.Person{ID: "1", Name: "m", Email: "new@example.org"}), http.StatusSeeOther, "")
		for _, claim := range []any{false, "false", nil, 1, []any{true}, "yes"} {
			want(t, b.signIn(t, k, providertest.Person{ID: "2", Claims: map[string]any{"email": "new@example.org", "email_verified": claim}}), http.StatusSeeOther, "")
		}
	}
	if n := h.number(t, "SELECT COUNT(*) FROM users WHERE email = 'new@example.org'"); n != 0 {
		t.Errorf("%d users have it", n)
	}
}

// TestLateAnswers: ten minutes.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	for _, k := range h.kinds() {
		k.server.SignedIn(grace())
		b := h.browser()
		link := visit(t, k, b.begin(t, k))
		h.advance(10 * time.Minute)
		want(t, b.get(link), http.StatusUnauthorized, "taken too long")
	}
	h.browser().begin(t, h.kinds()[0])
	h.advance(11 * time.Minute)
	if err := h.Sweep(t.Context()); err != nil || h.number(t, "SELECT COUNT(*) FROM provider_attempts") != 0 {
		t.Errorf("attempts are left: %v", err)
	}
}

// TestOpenRedirects: the way back is a path of this server, or refused.
func TestOpenRedirects(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t))
	for _, to := range hostilePaths() {
		if strings.Contains(to, "\x00") {
			continue // refused before it gets here
		}
		for _, k := range h.kinds() {
			want(t, h.browser().get(k.path+"?to="+url.QueryEscape(to)), http.StatusBadRequest, "to: ")
		}
		want(t, h.signedIn(t, h.ada).call("POST", "/auth/third-party-bindings/github", map[string]any{"to": to}), http.StatusBadRequest, "to: ")
	}
	for to, wanted := range map[string]string{"": home, "/": "/", "/a/b?c=d&e=%2Ff#g": "/a/b?c=d&e=%2Ff#g"} {
		b := h.browser()
		k := h.kinds()[0]
		k.server.SignedIn(grace())
		address := want(t, b.get(k.path+"?to="+url.QueryEscape(to)), http.StatusSeeOther, "").Header().Get("Location")
		if got := want(t, b.get(visit(t, k, address)), http.StatusSeeOther, "").Header().Get("Location"); got != wanted {
			t.Errorf("%q: to %q", to, got)
		}
	}
}

// TestAttemptsAreLimited: each is a row, per address and per user.
func TestAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	h := build(t, dbtest.SQLite(t), func(d *Deps) { d.Attempts = identity.Limit{Max: 3, Window: time.Hour} })
	k := h.kinds()[0]
	for range 3 {
		h.browser().begin(t, k)
	}
	w := want(t, h.browser().get(k.path), http.StatusTooManyRequests, "5013")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	want(t, h.browser().get("/auth/solana?address="+someAddress), http.StatusTooManyRequests, "5013")
	b := h.signedIn(t, h.ada)
	for range 3 {
		b.beginBinding(t, k)
	}
	want(t, b.call("POST", "/auth/third-party-bindings/github", nil), http.StatusTooManyRequests, "5013")
	if n := h.number(t, "SELECT COUNT(*) FROM provider_attempts"); n != 6 {
		t.Errorf("%d rows", n)
	}
}
