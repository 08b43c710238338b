package matrix_test

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
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// matrix is a world with every kind of credential.
type matrix struct {
	*apptest.World
	columns  []matrixColumn
	carol    *apptest.Resident
	imported map[*apptest.Resident]string // ids of certificates with their key, assigned to the device
	clock    *apptest.Skew
	made     map[string]*apptest.APIKey
	db       *sqldb.DB                // as another process has it
	seen     map[string][]observation // by the line of the route, in the order of the columns
}

// observation is what a credential of a column got at a route, at its own path
// and by the /me alias.
type observation struct{ own, me cell }

func newMatrix(t *testing.T, db sqldb.Config) *matrix {
	t.Helper()
	m := &matrix{clock: &apptest.Skew{}, made: map[string]*apptest.APIKey{}, imported: map[*apptest.Resident]string{}, seen: map[string][]observation{}}
	c := apptest.Settings(t, db)
	c.Limits = []string{"resets-per-account=100000/1h", "resets-per-account-total=100000/1h", "resets-per-address=100000/1h"}
	apptest.WithProviders(t, &c)
	m.World = apptest.NewWorldWith(t, c, app.Options{Now: m.clock.Now})
	m.db = m.Database()
	m.carol = m.Settle("carol@example.org", apptest.PublicID(0xc))
	for _, r := range []*apptest.Resident{m.Alice, m.Bob, m.carol} {
		id := r.Imported()
		m.imported[r] = strconv.FormatInt(id, 10)
		r.Do("POST", "/apiv1/me/devices/"+r.Ids["device_id"]+"/certificates", map[string]any{"cert_id": id}, 204)
	}
	m.columns = m.makeColumns(t)
	for _, o := range m.Operations {
		m.seen[o.Line()] = make([]observation, len(m.columns))
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
		apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
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
			apptest.Golden(t, filepath.Join("..", "..", "docs", "access-matrix.md"), []byte(last))
		}
	})
}

// changedHere are the lists of what the test makes on its way.
var changedHere = regexp.MustCompile(`(?m)^GET U/(apikeys|sessions|quotas) 200 .*$`)

// refusals sends what must be refused to alice's objects, by both paths.
func (m *matrix) refusals(t *testing.T) {
	t.Helper()
	seen := func() string { return changedHere.ReplaceAllString(m.World.Seen(t, m.Alice), "") }
	before := seen()
	for _, o := range m.Operations {
		for i, c := range m.columns {
			for _, me := range []bool{false, true} {
				if want := c.rule(o, me); want != unasked && want != admitted && (o.OfUser() || !me) {
					m.note(o, i, me, m.observe(t, o, c, m.Alice, me, want))
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
	last := func(i int) bool { return m.columns[i].owner == m.Alice }
	indices = append(slices.DeleteFunc(slices.Clone(indices), last), slices.DeleteFunc(indices, func(i int) bool { return !last(i) })...)
	operations := slices.SortedStableFunc(slices.Values(m.Operations), order)
	for _, i := range indices {
		c := m.columns[i]
		owner := cmp.Or(c.owner, m.Alice)
		for _, o := range operations {
			if c.rule(o, false) != admitted {
				continue
			}
			want := answered(o, c)
			switch {
			case o.Method == http.MethodGet && o.OfUser(): // both paths, since nothing changes
				m.note(o, i, true, m.observe(t, o, c, owner, true, want))
				m.note(o, i, false, m.observe(t, o, c, owner, false, want))
			default: // keys by /me, as api.md has it, sessions by the own path
				m.note(o, i, false, m.observe(t, o, c, owner, o.OfUser() && c.name == "key", want))
			}
		}
	}
}

func (m *matrix) note(o *apptest.Operation, column int, me bool, got cell) {
	if me {
		m.seen[o.Line()][column].me = got
		return
	}
	m.seen[o.Line()][column].own = got
}

// observe makes the request with every credential of the column, each of which
// must get what is wanted.
func (m *matrix) observe(t *testing.T, o *apptest.Operation, c matrixColumn, r *apptest.Resident, me bool, want cell) (got cell) {
	t.Helper()
	path := m.Fill(o, m.ids(o, r)) + matrixQueries[o.Line()]
	if me {
		path = strings.Replace(path, "/apiv1/users/"+r.Ids["user_id"]+"/", "/apiv1/me/", 1)
	}
	who := c.with(o, r)
	if o.Rule.TakesNone() || me && c.name == "junk" { // the path is looked at after the credential
		who = who[:min(len(who), 1)]
	}
	got = unasked
	var first *apptest.Answer
	for i, credential := range who {
		a := credential.Try(o.Method, path, o.MatrixBody(r))
		name := fmt.Sprintf("%s at %s with %s %d", o.Line(), path, c.name, i)
		got = cell{status: a.Status}
		p := a.Check(t, name, o)
		if p != nil {
			got.code = p.Code
		}
		if got != want {
			t.Errorf("%s: %d %.200s, want %s", name, a.Status, a.Body, want)
		}
		m.look(t, name, o, c, a, p)
		if i > 0 && c.name == "k:other object" && string(a.Body) != string(first.Body) {
			t.Errorf("%s tells a foreign object from an absent one: %s, %s", name, first.Body, a.Body)
		}
		first = cmp.Or(first, a)
	}
	return got
}

// look requires of an answer what status and code do not show.
func (m *matrix) look(t *testing.T, name string, o *apptest.Operation, c matrixColumn, a *apptest.Answer, p *apptest.Problem) {
	t.Helper()
	scope, _, _ := o.Takes()
	list := o.OfUser() && bytes.Contains(a.Body, []byte(`"data":[`))
	switch {
	case c.name == "k:no scope" && scope != "" && a.Status == 403 && !p.Names(scope):
		t.Errorf("%s: %s does not name the scope", name, a.Body)
	case c.name == "k:other object" && list && !bytes.Contains(a.Body, []byte(`"data":[]`)):
		t.Errorf("%s: the list shows what the key is not for: %s", name, a.Body)
	case c.name == "k:object" && list && objectOf[scope] == lists[o.Line()] && !bytes.Contains(a.Body, []byte(`"total":1,`)):
		t.Errorf("%s: the list shows more than the key is for, or less: %s", name, a.Body)
	case o.Line() == "GET /auth/status" && bytes.Contains(a.Body, []byte(`"authenticated":true`)) != (c.name == "session" || c.name == "s:stale" || c.name == "s:other"):
		t.Errorf("%s: %s", name, a.Body)
	}
}

// lists says which objects a list shows.
var lists = map[string]string{
	"GET U/certificates": "certificate_id", "GET U/acme-accounts/{acme_account_id}/certificates": "certificate_id", "GET U/devices": "device_id",
	"GET U/acme-accounts": "acme_account_id", "GET U/service_webhooks": "webhook_id", "GET U/cas": "ca_id",
}
