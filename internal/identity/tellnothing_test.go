package identity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// unlimited lets a test try as often as it needs to.
func unlimited(d *Deps) {
	many := Limit{Max: 1 << 30, Window: time.Hour}
	d.Limits = Limits{many, many, many, many, many, many, many, many, many, many}
}

// doors are what a stranger can try an address on.
func doors() map[string]func(h *house, email string) *httptest.ResponseRecorder {
	return map[string]func(h *house, email string) *httptest.ResponseRecorder{
		"login": func(h *house, email string) *httptest.ResponseRecorder { return h.login(email, wrongPas) },
		"register": func(h *house, email string) *httptest.ResponseRecorder {
			return h.general("register", "email", email, "password", wrongPas)
		},
		"request": func(h *house, email string) *httptest.ResponseRecorder {
			return h.general("request-reset-password", "email", email)
		},
		"activate": func(h *house, email string) *httptest.ResponseRecorder {
			return h.general("activate-user", "email", email, "verify_code", "123456")
		},
		"reset": func(h *house, email string) *httptest.ResponseRecorder {
			return h.general("reset-password", "email", email, "verify_code", "123456", "new_password", wrongPas)
		},
	}
}

// TestAddressesAreNotTold: 200 tries each on addresses with and without an
// account, in random order. Text, status, headers, hashes and rows are the same;
// the times come from one distribution, as far as a rank test can say.
func TestAddressesAreNotTold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db, unlimited)
		emails := addresses(t, h, db)
		for name, door := range doors() {
			t.Run(name, func(t *testing.T) {
				// A leak shows in every round; chance, at 5 deviations, in one
				// of a million.
				var z float64
				for range 3 {
					known, unknown := try(t, h, db, door, emails)
					if z = rankTest(known, unknown); math.Abs(z) < 5 {
						return
					}
					t.Logf("medians: known %s, unknown %s, %.1f deviations", median(known), median(unknown), z)
				}
				t.Errorf("the times tell: %.1f deviations", z)
			})
		}
	})
}

// address is one that a stranger asks about.
type address struct {
	email string
	known bool
}

// addresses makes 200 users and as many addresses without one; for all of them
// a password was asked for.
func addresses(t *testing.T, h *house, db *sqldb.DB) (list []address) {
	t.Helper()
	if _, err := h.codeKeys.get(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		list = nil
		for i := range 400 {
			a := address{fmt.Sprintf("a%03d@example.org", i), i%2 == 0}
			list = append(list, a)
			if a.known {
				if _, err := h.insert(t.Context(), tx, insertUserParams{Email: a.email, Password: dummyPHC().String(), Status: "ACTIVE", Roles: "[]"}); err != nil {
					return err
				}
			}
			if err := h.sendReset(t.Context(), tx, takeAccountRequestRow{Kind: kindReset, Email: a.email}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// try measures a door once for each address, in random order.
func try(t *testing.T, h *house, db *sqldb.DB, door func(*house, string) *httptest.ResponseRecorder, list []address) (known, unknown []time.Duration) {
	t.Helper()
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var first string
	for _, a := range list {
		h.hashes.Store(0)
		rows := written(t, db)
		start := time.Now()
		w := door(h, a.email)
		took := time.Since(start)
		if a.known {
			known = append(known, took)
		} else {
			unknown = append(unknown, took)
		}
		w.Header().Del("X-Request-Id")
		answer := fmt.Sprintf("%d %v %s; %d hashes, %d rows", w.Code, w.Header(), strings.ReplaceAll(w.Body.String(), a.email, "EMAIL"), h.hashes.Load(), written(t, db)-rows)
		if first == "" {
			first = answer
		}
		if answer != first {
			t.Fatalf("account %v: %s\nbut before: %s", a.known, answer, first)
		}
	}
	return known, unknown
}

// written counts the rows that any of the doors may write.
func written(t *testing.T, db *sqldb.DB) int64 {
	t.Helper()
	return number(t, db, `SELECT (SELECT COUNT(*) FROM audit_log) + (SELECT COUNT(*) FROM account_requests) +
		(SELECT COALESCE(SUM(hits), 0) FROM rate_limits) + (SELECT COALESCE(SUM(tries), 0) FROM account_codes)`)
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// rankTest is the Mann-Whitney U test: how many standard deviations the ranks
// of a are from those of equal distributions.
func rankTest(a, b []time.Duration) float64 {
	type sample struct {
		d time.Duration
		a bool
	}
	var all []sample
	for _, d := range a {
		all = append(all, sample{d, true})
	}
	for _, d := range b {
		all = append(all, sample{d, false})
	}
	slices.SortFunc(all, func(x, y sample) int { return int(x.d - y.d) })
	var ranks float64
	for i, s := range all {
		if s.a {
			ranks += float64(i + 1)
		}
	}
	n, m := float64(len(a)), float64(len(b))
	return (ranks - n*(n+1)/2 - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
}

// TestRankTestCanFail: a difference of a tenth of the noise in every try shows.
func TestRankTestCanFail(t *testing.T) {
	t.Parallel()
	noise := func(shift int) (d []time.Duration) {
		for range 200 {
			d = append(d, time.Duration(1000+shift+rand.IntN(200)))
		}
		return d
	}
	if z := rankTest(noise(0), noise(0)); math.Abs(z) > 5 {
		t.Errorf("equal distributions: %.1f deviations", z)
	}
	if z := rankTest(noise(80), noise(0)); z < 5 {
		t.Errorf("different distributions: %.1f deviations", z)
	}
}
