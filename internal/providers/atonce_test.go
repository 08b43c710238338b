package providers

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/providers/providertest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestOneOfManyCallbacks: one of the same answers sent at once signs in, the
// others do not.
func TestOneOfManyCallbacks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		k := h.kinds()[0]
		k.server.SignedIn(grace())
		b := h.browser()
		link := visit(t, k, b.begin(t, k))
		cookies := b.cookies
		codes := make([]int, 20)
		var group sync.WaitGroup
		for i := range codes {
			group.Go(func() {
				codes[i] = (&browser{h: h, cookies: maps.Clone(cookies)}).get(link).Code
			})
		}
		group.Wait()
		count := map[int]int{}
		for _, code := range codes {
			count[code]++
		}
		if count[http.StatusSeeOther] != 1 || count[http.StatusUnauthorized] != len(codes)-1 {
			t.Errorf("%v", count)
		}
	})
}

// TestOneUserOfManyBrowsers: somebody new, in several browsers at once, becomes
// one user.
func TestOneUserOfManyBrowsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		for _, k := range h.kinds() {
			person := providertest.Person{ID: "31337", Name: "dup-" + k.code, Email: "dup-" + k.code + "@example.org", Verified: true}
			k.server.SignedIn(person)
			links, browsers := make([]string, 8), make([]*browser, 8)
			for i := range links {
				browsers[i] = h.browser()
				links[i] = visit(t, k, browsers[i].begin(t, k))
			}
			answers := make([]*httptest.ResponseRecorder, len(links))
			var group sync.WaitGroup
			for i := range links {
				group.Go(func() { answers[i] = browsers[i].get(links[i]) })
			}
			group.Wait()
			for i, w := range answers {
				want(t, w, http.StatusSeeOther, "")
				if browsers[i].who(t) != browsers[0].who(t) {
					t.Errorf("%s: two users", k.code)
				}
			}
		}
	})
}

// TestLastWayIn: whoever has a binding alone keeps it, also when two are removed
// at once.
func TestLastWayIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		github, corp := h.kinds()[0], h.kinds()[2]
		b := h.browser()
		want(t, b.signIn(t, github, grace()), http.StatusSeeOther, "")
		want(t, b.call("DELETE", "/auth/third-party-bindings/github", nil), http.StatusConflict, "last way to sign in")
		if len(b.bindings(t)) != 1 {
			t.Fatal("it is gone all the same")
		}
		corp.server.SignedIn(providertest.Person{ID: "g2"})
		for range 5 {
			if len(b.bindings(t)) == 1 {
				missing := corp
				if b.bindings(t)[0].Provider == "corp" {
					missing = github
					github.server.SignedIn(grace())
				}
				want(t, b.get(visit(t, missing, b.beginBinding(t, missing))), http.StatusSeeOther, "")
			}
			codes := make([]int, 2)
			var group sync.WaitGroup
			for i, code := range []string{"github", "corp"} {
				group.Go(func() {
					r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), "DELETE", "/auth/third-party-bindings/"+code, nil)
					for name, value := range b.cookies {
						r.AddCookie(&http.Cookie{Name: name, Value: value})
					}
					w := httptest.NewRecorder()
					h.mux.ServeHTTP(w, r)
					codes[i] = w.Code
				})
			}
			group.Wait()
			if codes[0]+codes[1] != http.StatusNoContent+http.StatusConflict || len(b.bindings(t)) != 1 {
				t.Fatalf("two removals at once: %v, %d bindings are left", codes, len(b.bindings(t)))
			}
		}
	})
}
