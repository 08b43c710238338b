package names

import (
	"slices"
	"strings"
	"testing"
)

func TestDomain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		domain string
		exact  bool
		path   []string
		listed bool
	}{
		"www.example.com":       {"example.com", false, []string{"www.example.com", "example.com"}, true},
		"example.com":           {"example.com", false, []string{"example.com"}, true},
		"*.example.com":         {"example.com", false, []string{"example.com"}, true},
		"a.b.example.co.uk":     {"example.co.uk", false, []string{"a.b.example.co.uk", "b.example.co.uk", "example.co.uk"}, true},
		"co.uk":                 {"co.uk", true, []string{"co.uk"}, true},
		"*.co.uk":               {"co.uk", true, []string{"co.uk"}, true},
		"me.github.io":          {"me.github.io", false, []string{"me.github.io"}, true},
		"x.me.github.io":        {"me.github.io", false, []string{"x.me.github.io", "me.github.io"}, true},
		"github.io":             {"github.io", true, []string{"github.io"}, true},
		"*.github.io":           {"github.io", true, []string{"github.io"}, true},
		"com":                   {"com", true, []string{"com"}, false},
		"localhost":             {"localhost", true, []string{"localhost"}, false},
		"www.victim.test":       {"victim.test", false, []string{"www.victim.test", "victim.test"}, false},
		"a.b.internal":          {"b.internal", false, []string{"a.b.internal", "b.internal"}, false},
		"192.0.2.1":             {"192.0.2.1", true, []string{"192.0.2.1"}, false},
		"2001:db8::1":           {"2001:db8::1", true, []string{"2001:db8::1"}, false},
		"www.xn--bcher-kva.de":  {"xn--bcher-kva.de", false, []string{"www.xn--bcher-kva.de", "xn--bcher-kva.de"}, true},
		"shop.city.kawasaki.jp": {"city.kawasaki.jp", false, []string{"shop.city.kawasaki.jp", "city.kawasaki.jp"}, true},
	} {
		domain, exact := Domain(name)
		if got := path(name); domain != want.domain || exact != want.exact || !slices.Equal(got, want.path) || listed(name) != want.listed {
			t.Errorf("%s: %s %t %v %t, want %+v", name, domain, exact, got, listed(name), want)
		}
	}
}

// Whatever is asked for, the nearest claim is found on a path that ends at the
// registrable domain, and no claim of another domain is on it.
func FuzzNearestClaim(f *testing.F) {
	for _, seed := range []string{"WWW.Example.COM.", "*.github.io", "bücher.example", "192.0.2.1", "::ffff:192.0.2.1", "a.b.c.d.co.uk", "localhost"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		name, problem := Normal(entry)
		if problem != "" {
			return
		}
		if again, problem := Normal(name); again != name || problem != "" {
			t.Fatalf("%q, normalised again: %q %s", name, again, problem)
		}
		domain, exact := Domain(name)
		steps := path(name)
		if steps[0] != base(name) || steps[len(steps)-1] != domain || exact && len(steps) != 1 {
			t.Fatalf("%q: domain %q, path %v", name, domain, steps)
		}
		for i, at := range steps {
			other, _ := Domain(at)
			if other != domain || !covers(at, name) || !within(name, at) {
				t.Fatalf("%q: %q is of %q, want %q", name, at, other, domain)
			}
			held := []holding{{id: 1, userID: 7, name: at, state: stateHeld}}
			for _, above := range steps[i+1:] { // claims farther away, of others
				held = append(held, holding{id: 2, userID: 9, name: above, state: stateHeld})
			}
			if nearest, ok := nearestOf(name, held); !ok || nearest.id != 1 {
				t.Fatalf("%q: nearest %+v, want the claim at %q", name, nearest, at)
			}
		}
		// Neither a sibling nor a name that only ends the same way decides.
		for _, other := range []string{"x" + base(name), "sibling." + domain} {
			if !slices.Contains(steps, other) && covers(other, name) {
				t.Fatalf("a claim on %q holds for %q", other, name)
			}
		}
		if exact && strings.Contains(strings.TrimPrefix(name, "*."), "*") {
			t.Fatalf("%q", name)
		}
	})
}
