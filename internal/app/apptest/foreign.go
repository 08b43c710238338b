package apptest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// absent are ids that nobody has.
var absent = map[string]string{"device_public_id": PublicID(0xdead), "token": "never-was", "*": "never-was"}

func AbsentID(parameter string) string {
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

// ForeignMembers does the same with ids inside bodies.
func (w *World) ForeignMembers(t *testing.T) {
	t.Helper()
	tried := 0
	for _, o := range w.Operations {
		if !w.Admitted(o) || OfAdmins(o) || o.Body == nil {
			continue
		}
		for _, good := range o.Bodies(w.Alice) {
			Spots(o.Body, good, Encoded, func(leaf string, at *Schema, _ bool, body string) {
				parameter, ok := memberOf[leaf]
				if !ok {
					return
				}
				send := func(id string) *Answer {
					text := id
					if !at.Takes("integer") {
						text = strconv.Quote(id)
					}
					return w.As(o, w.Alice).Try(o.Method, w.Fill(o, w.Alice.Ids), strings.Replace(body, `"`+Place+`"`, text, 1))
				}
				name := fmt.Sprintf("%s with %s", o.Line(), leaf)
				a, b := send(w.Bob.Ids[parameter]), send(AbsentID(parameter))
				p := a.Check(t, name, o)
				if a.Status != b.Status || p != nil && string(a.Body) != string(b.Body) {
					t.Errorf("%s: foreign %d %s\nabsent %d %s", name, a.Status, a.Body, b.Status, b.Body)
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

// Seen is all that a resident sees of their own, without what changes by itself.
func (w *World) Seen(t *testing.T, r *Resident) string {
	t.Helper()
	var all []string
	for _, o := range w.Operations {
		if o.Method != "GET" || o.Raw || o.Rule.TakesNone() || o.Rule.TakesAdmins() || !w.Admitted(o) || o.Line() == NotImplemented || strings.HasSuffix(o.Path, "/updates") || strings.HasSuffix(o.Path, "/audit-log") {
			continue
		}
		a := w.As(o, r).Try("GET", w.Fill(o, r.Ids), nil)
		var value any
		if err := json.Unmarshal(a.Body, &value); err != nil {
			t.Fatalf("%s: %v in %.200s", o.Line(), err, a.Body)
		}
		all = append(all, o.Line()+" "+strconv.Itoa(a.Status)+" "+Encoded(lasting(value)))
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
