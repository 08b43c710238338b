package app_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// matrix is a world with every kind of credential.
type matrix struct {
	*world
	columns  []matrixColumn
	carol    *resident
	imported map[*resident]string // ids of certificates with their key, assigned to the device
	clock    *skew
	made     map[string]*apiKey
	db       *sqldb.DB                // as another process has it
	seen     map[string][]observation // by the line of the route, in the order of the columns
}

// observation is what a credential of a column got at a route, at its own path
// and by the /me alias.
type observation struct{ own, me cell }

func newMatrix(t *testing.T, db sqldb.Config) *matrix {
	t.Helper()
	m := &matrix{clock: &skew{}, made: map[string]*apiKey{}, imported: map[*resident]string{}, seen: map[string][]observation{}}
	c := settings(t, db)
	c.Limits = []string{"resets-per-account=100000/1h", "resets-per-account-total=100000/1h", "resets-per-address=100000/1h"}
	withProviders(t, &c)
	m.world = newWorldWith(t, c, app.Options{Now: m.clock.now})
	m.db = m.database()
	m.carol = m.settle("carol@example.org", publicID(0xc))
	for _, r := range []*resident{m.alice, m.bob, m.carol} {
		id := r.imported()
		m.imported[r] = strconv.FormatInt(id, 10)
		r.do("POST", "/apiv1/me/devices/"+r.ids["device_id"]+"/certificates", map[string]any{"cert_id": id}, 204)
	}
	m.columns = m.makeColumns(t)
	for _, o := range m.operations {
		m.seen[o.line()] = make([]observation, len(m.columns))
	}
	return m
}

// Every route with every kind of credential: each is answered as the
// specification says, and what is refused changes nothing. What was observed is
// docs/access-matrix.md, so that a route that is added, or answers differently,
// shows in review.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	pages := map[string]string{}
	t.Run("engines", func(t *testing.T) {
		t.Parallel()
		onEach(t, func(t *testing.T, db sqldb.Config) {
			m := newMatrix(t, db)
			m.refusals(t)
			m.admissions(t)
			mu.Lock()
			defer mu.Unlock()
			pages[t.Name()] = m.page()
		})
	})
	t.Cleanup(func() {
		var last string
		for engine, page := range pages {
			if last != "" && page != last {
				t.Errorf("%s differs", engine)
			}
			last = page
		}
		if !t.Failed() {
			golden(t, filepath.Join("..", "..", "docs", "access-matrix.md"), []byte(last))
		}
	})
}

// changedHere are the lists of what the test makes on its way.
var changedHere = regexp.MustCompile(`(?m)^GET U/(apikeys|sessions|quotas) 200 .*$`)

// refusals sends what must be refused to alice's objects, by both paths.
func (m *matrix) refusals(t *testing.T) {
	t.Helper()
	seen := func() string { return changedHere.ReplaceAllString(m.world.seen(t, m.alice), "") }
	before := seen()
	for _, o := range m.operations {
		for i, c := range m.columns {
			for _, me := range []bool{false, true} {
				if want := c.rule(o, me); want != unasked && want != admitted && (o.ofUser() || !me) {
					m.note(o, i, me, m.observe(t, o, c, m.alice, me, want))
				}
			}
		}
	}
	if after := seen(); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
}

// admissions sends what must be let through, column by column: that of the
// session, which takes everything away from alice in the end, comes last.
func (m *matrix) admissions(t *testing.T) {
	t.Helper()
	indices := make([]int, len(m.columns))
	for i := range indices {
		indices[i] = i
	}
	last := func(i int) bool { return m.columns[i].owner == m.alice }
	indices = append(slices.DeleteFunc(slices.Clone(indices), last), slices.DeleteFunc(indices, func(i int) bool { return !last(i) })...)
	operations := slices.SortedStableFunc(slices.Values(m.operations), order)
	for _, i := range indices {
		c := m.columns[i]
		owner := cmp.Or(c.owner, m.alice)
		for _, o := range operations {
			if c.rule(o, false) != admitted {
				continue
			}
			want := answered(o, c)
			switch {
			case o.method == http.MethodGet && o.ofUser(): // both paths, since nothing changes
				m.note(o, i, true, m.observe(t, o, c, owner, true, want))
				m.note(o, i, false, m.observe(t, o, c, owner, false, want))
			default: // keys by /me, as api.md has it, sessions by the own path
				m.note(o, i, false, m.observe(t, o, c, owner, o.ofUser() && c.name == "key", want))
			}
		}
	}
}

func (m *matrix) note(o *operation, column int, me bool, got cell) {
	if me {
		m.seen[o.line()][column].me = got
		return
	}
	m.seen[o.line()][column].own = got
}

// observe makes the request with every credential of the column, each of which
// must get what is wanted.
func (m *matrix) observe(t *testing.T, o *operation, c matrixColumn, r *resident, me bool, want cell) (got cell) {
	t.Helper()
	path := m.fill(o, m.ids(o, r)) + matrixQueries[o.line()]
	if me {
		path = strings.Replace(path, "/apiv1/users/"+r.ids["user_id"]+"/", "/apiv1/me/", 1)
	}
	who := c.with(o, r)
	if o.rule.TakesNone() || me && c.name == "junk" { // the path is looked at after the credential
		who = who[:min(len(who), 1)]
	}
	got = unasked
	var first *answer
	for i, credential := range who {
		a := credential.try(o.method, path, o.matrixBody(r))
		name := fmt.Sprintf("%s at %s with %s %d", o.line(), path, c.name, i)
		got = cell{status: a.status}
		p := a.check(t, name, o)
		if p != nil {
			got.code = p.Code
		}
		if got != want {
			t.Errorf("%s: %d %.200s, want %s", name, a.status, a.body, want)
		}
		m.look(t, name, o, c, a, p)
		if i > 0 && c.name == "k:other object" && string(a.body) != string(first.body) {
			t.Errorf("%s tells a foreign object from an absent one: %s, %s", name, first.body, a.body)
		}
		first = cmp.Or(first, a)
	}
	return got
}

// look requires of an answer what status and code do not show.
func (m *matrix) look(t *testing.T, name string, o *operation, c matrixColumn, a *answer, p *problem) {
	t.Helper()
	scope, _, _ := o.takes()
	list := o.ofUser() && bytes.Contains(a.body, []byte(`"data":[`))
	switch {
	case c.name == "k:no scope" && scope != "" && a.status == 403 && !p.names(scope):
		t.Errorf("%s: %s does not name the scope", name, a.body)
	case c.name == "k:other object" && list && !bytes.Contains(a.body, []byte(`"data":[]`)):
		t.Errorf("%s: the list shows what the key is not for: %s", name, a.body)
	case c.name == "k:object" && list && objectOf[scope] == lists[o.line()] && !bytes.Contains(a.body, []byte(`"total":1,`)):
		t.Errorf("%s: the list shows more than the key is for, or less: %s", name, a.body)
	case o.line() == "GET /auth/status" && bytes.Contains(a.body, []byte(`"authenticated":true`)) != (c.name == "session" || c.name == "s:stale" || c.name == "s:other"):
		t.Errorf("%s: %s", name, a.body)
	}
}

// lists says which objects a list shows.
var lists = map[string]string{
	"GET U/certificates": "certificate_id", "GET U/acme-accounts/{acme_account_id}/certificates": "certificate_id", "GET U/devices": "device_id",
	"GET U/acme-accounts": "acme_account_id", "GET U/service_webhooks": "webhook_id", "GET U/cas": "ca_id",
}
