package app_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Bad input of every kind on every route is answered 400/5000 naming the
// field, never with a 5xx, and says nothing of the inside.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		w := newWorld(t, db)
		w.secrets.given = false // here the same text is tried as a secret and as a name
		for _, o := range w.operations {
			if o.body == nil {
				continue
			}
			t.Run(o.line(), func(t *testing.T) {
				for _, good := range o.bodies(w.alice) {
					badMembers(t, w, o, good)
				}
				if !w.postgres {
					badTexts(t, w, o)
				}
			})
		}
		w.wellAfter(t)
	})
}

// secretMember are the members whose value no answer may repeat.
var secretMember = regexp.MustCompile(`password|secret|token|code|hmac|private_key`)

func badMembers(t *testing.T, w *world, o *operation, good any) {
	t.Helper()
	missing, unknown := without(o.body, good)
	list := append(mutations(o.body, good), missing...)
	if unknown.text != "" {
		list = append(list, unknown)
	}
	known := append(o.body.members(), "body", "no_such_member")
	for _, b := range list {
		if b.must && w.postgres { // refused before there is a database
			continue
		}
		a := w.as(o, w.alice).try(o.method, w.fill(o, w.alice.ids), b.text)
		name := fmt.Sprintf("%s with %s = %.60s", o.line(), b.leaf, b.value)
		p := a.check(t, name, o)
		if !w.admitted(o) {
			continue
		}
		switch {
		case b.must && (a.status != 400 || !p.names(b.leaf)):
			t.Errorf("%s: %d %.300s", name, a.status, a.body)
		case a.status == 400 && !p.names(known...):
			t.Errorf("%s names no member: %.300s", name, a.body)
		}
		if secretMember.MatchString(b.leaf) && strings.Contains(string(a.body), echo) && a.status >= 400 {
			t.Errorf("%s: the answer repeats it: %.300s", name, a.body)
		}
	}
}

// badTexts sends what is no good body as a whole.
func badTexts(t *testing.T, w *world, o *operation) {
	t.Helper()
	send := func(name, text string, want ...int) {
		t.Helper()
		a := w.as(o, w.alice).try(o.method, w.fill(o, w.alice.ids), text)
		p := a.check(t, o.line()+" with "+name, o)
		if !w.admitted(o) {
			return
		}
		ok := len(want) == 0
		for _, status := range want {
			ok = ok || status == a.status
		}
		if !ok || a.status == 400 && !p.names(append(o.body.members(), "body")...) {
			t.Errorf("%s with %s: %d %.300s, want %v", o.line(), name, a.status, a.body, want)
		}
	}
	for name, text := range map[string]string{
		"half an object": `{"a":`, "a word": "hello", "two values": "{} {}", "a trailing comma": `{"a":1,}`, "a form": "a=1&b=2",
		"a byte order mark": "\xef\xbb\xbf{}", "bytes": "\xff\xfe\x00", "XML": `<a/>`, "a comment": "{} // x", "single quotes": "{'a':1}",
		"NaN": `{"a":NaN}`, "as many brackets as there may be": strings.Repeat("[", o.bodySize),
	} {
		send(name, text, 400)
	}
	if o.body.Type != nil {
		for _, text := range []string{"[]", `""`, "5", "true", "[{}]", `"{}"`} {
			send(text, text, 400)
		}
	}
	if o.bodyRequired {
		send("nothing", "", 400)
		send("null", "null", 400)
		send("spaces", "  \n", 400)
	} else {
		send("nothing", "")
		send("null", "null")
	}
	send("a byte too many", strings.Repeat(" ", o.bodySize-1)+"{}", 413)
	send("1 MiB and more", `{"a":"`+strings.Repeat("a", 1<<20)+`"}`, 413)
}

// notImplemented is the fixed 501 of api.md.
const notImplemented = "GET U/devices/{device_id}"

// wellAfter requires that the server is well after all that.
func (w *world) wellAfter(t *testing.T) {
	t.Helper()
	w.anonymous().do("GET", "/health", nil, 200)
	w.alice.do("GET", "/auth/profile", nil, 200)
	for _, o := range w.operations {
		if o.method != "GET" || o.raw || !w.admitted(o) || o.line() == notImplemented {
			continue
		}
		a := w.as(o, w.alice).try("GET", w.fill(o, w.alice.ids), nil)
		if p := a.check(t, o.line(), o); p != nil && p.Key != "NOT_ISSUED" && !p.names(slices.Collect(maps.Keys(o.query))...) { // a parameter that is needed
			t.Errorf("%s afterwards: %d %s", o.line(), a.status, a.body)
		}
	}
	if strings.Contains(w.log.String(), "panic") {
		t.Error("there was a panic; the log has it")
	}
}
