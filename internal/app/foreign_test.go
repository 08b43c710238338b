package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
)

// absent are ids that nobody has.
var absent = map[string]string{"device_public_id": publicID(0xdead), "token": "never-was", "*": "never-was"}

func absentID(parameter string) string {
	if id, ok := absent[parameter]; ok {
		return id
	}
	return "4611686018427387904"
}

// memberOf says which path parameter a member of a body is the same as.
var memberOf = map[string]string{
	"acct_id": "acme_account_id", "cert_id": "certificate_id", "ob_id": "certificate_id", "device_id": "device_id",
	"user_id": "user_id", "device_public_id": "device_public_id",
}

// The answer for somebody else's object is that for one that does not exist,
// byte for byte, on every route, and the object stays as it is (threats.md
// scenario 1).
func TestForeignIsLikeAbsent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		before := w.seen(t, w.bob)
		tried := map[string]int{}
		for _, o := range w.operations {
			if o.rule.TakesNone() || ofAdmins(o) || !w.admitted(o) { // administrators look after the objects of all
				continue
			}
			for _, parameter := range o.parameters() {
				if parameter == "user_id" || o.line() == notImplemented {
					continue
				}
				foreign, none := maps.Clone(w.alice.ids), maps.Clone(w.alice.ids)
				foreign[parameter], none[parameter] = w.bob.ids[parameter], absentID(parameter)
				who := w.as(o, w.alice)
				a := who.try(o.method, w.fill(o, foreign), o.good(w.alice))
				b := who.try(o.method, w.fill(o, none), o.good(w.alice))
				name := o.line() + " by " + parameter
				p := a.check(t, name, o)
				if a.status != b.status || string(a.body) != string(b.body) {
					t.Errorf("%s: foreign %d %s\nabsent %d %s", name, a.status, a.body, b.status, b.body)
				}
				if p == nil || a.status != 404 || p.Code != 5003 || p.Key == "UNKNOWN_PATH" {
					t.Errorf("%s: %d %.200s, want 404/5003", name, a.status, a.body)
				}
				tried[parameter]++
			}
		}
		for parameter := range w.alice.ids {
			if strings.HasSuffix(parameter, "_id") && parameter != "user_id" && tried[parameter] == 0 {
				t.Errorf("no route was tried with a foreign %s", parameter)
			}
		}
		w.foreignMembers(t)
		if after := w.seen(t, w.bob); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}
	})
}

// foreignMembers does the same with ids inside bodies.
func (w *world) foreignMembers(t *testing.T) {
	t.Helper()
	tried := 0
	for _, o := range w.operations {
		if !w.admitted(o) || ofAdmins(o) || o.body == nil {
			continue
		}
		for _, good := range o.bodies(w.alice) {
			spots(o.body, good, encoded, func(leaf string, at *schema, _ bool, body string) {
				parameter, ok := memberOf[leaf]
				if !ok {
					return
				}
				send := func(id string) *answer {
					text := id
					if !at.takes("integer") {
						text = strconv.Quote(id)
					}
					return w.as(o, w.alice).try(o.method, w.fill(o, w.alice.ids), strings.Replace(body, `"`+place+`"`, text, 1))
				}
				name := fmt.Sprintf("%s with %s", o.line(), leaf)
				a, b := send(w.bob.ids[parameter]), send(absentID(parameter))
				p := a.check(t, name, o)
				if a.status != b.status || p != nil && string(a.body) != string(b.body) {
					t.Errorf("%s: foreign %d %s\nabsent %d %s", name, a.status, a.body, b.status, b.body)
				}
				tried++
			})
		}
	}
	if tried < 5 {
		t.Errorf("only %d members were tried", tried)
	}
}

// passing are members that change by themselves.
var passing = regexp.MustCompile(`_at$|^last_|attempt|^status|log|error|order_url|^step|agent|^next_`)

// seen is all that a resident sees of their own, without what changes by itself.
func (w *world) seen(t *testing.T, r *resident) string {
	t.Helper()
	var all []string
	for _, o := range w.operations {
		if o.method != "GET" || o.raw || o.rule.TakesNone() || o.rule.TakesAdmins() || !w.admitted(o) || o.line() == notImplemented || strings.HasSuffix(o.path, "/updates") || strings.HasSuffix(o.path, "/audit-log") {
			continue
		}
		a := w.as(o, r).try("GET", w.fill(o, r.ids), nil)
		var value any
		if err := json.Unmarshal(a.body, &value); err != nil {
			t.Fatalf("%s: %v in %.200s", o.line(), err, a.body)
		}
		all = append(all, o.line()+" "+strconv.Itoa(a.status)+" "+encoded(lasting(value)))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func lasting(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			if passing.MatchString(name) {
				delete(v, name)
				continue
			}
			v[name] = lasting(v[name])
		}
	case []any:
		for i := range v {
			v[i] = lasting(v[i])
		}
	}
	return value
}
