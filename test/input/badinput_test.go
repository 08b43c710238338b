package input_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Bad input of every kind on every route is answered 400/5000 naming the
// field, never with a 5xx, and says nothing of the inside.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		w := apptest.NewWorld(t, db)
		w.Secrets.Given = false // here the same text is tried as a secret and as a name
		for _, o := range w.Operations {
			if o.Body == nil {
				continue
			}
			t.Run(o.Line(), func(t *testing.T) {
				for _, good := range o.Bodies(w.Alice) {
					badMembers(t, w, o, good)
				}
				if !w.Postgres {
					badTexts(t, w, o)
				}
			})
		}
		w.WellAfter(t)
	})
}

// secretMember are the members whose value no answer may repeat.
var secretMember = regexp.MustCompile(`password|secret|token|code|hmac|private_key`)

func badMembers(t *testing.T, w *apptest.World, o *apptest.Operation, good any) {
	t.Helper()
	missing, unknown := without(o.Body, good)
	list := append(mutations(o.Body, good), missing...)
	if unknown.text != "" {
		list = append(list, unknown)
	}
	known := append(o.Body.Members(), "body", "no_such_member")
	for _, b := range list {
		if b.must && w.Postgres { // refused before there is a database
			continue
		}
		a := w.As(o, w.Alice).Try(o.Method, w.Fill(o, w.Alice.Ids), b.text)
		name := fmt.Sprintf("%s with %s = %.60s", o.Line(), b.leaf, b.value)
		p := a.Check(t, name, o)
		if !w.Admitted(o) {
			continue
		}
		switch {
		case b.must && (a.Status != 400 || !p.Names(b.leaf)):
			t.Errorf("%s: %d %.300s", name, a.Status, a.Body)
		case a.Status == 400 && !p.Names(known...):
			t.Errorf("%s names no member: %.300s", name, a.Body)
		}
		if secretMember.MatchString(b.leaf) && strings.Contains(string(a.Body), echo) && a.Status >= 400 {
			t.Errorf("%s: the answer repeats it: %.300s", name, a.Body)
		}
	}
}

// badTexts sends what is no good body as a whole.
func badTexts(t *testing.T, w *apptest.World, o *apptest.Operation) {
	t.Helper()
	send := func(name, text string, want ...int) {
		t.Helper()
		a := w.As(o, w.Alice).Try(o.Method, w.Fill(o, w.Alice.Ids), text)
		p := a.Check(t, o.Line()+" with "+name, o)
		if !w.Admitted(o) {
			return
		}
		ok := len(want) == 0
		for _, status := range want {
			ok = ok || status == a.Status
		}
		if !ok || a.Status == 400 && !p.Names(append(o.Body.Members(), "body")...) {
			t.Errorf("%s with %s: %d %.300s, want %v", o.Line(), name, a.Status, a.Body, want)
		}
	}
	for name, text := range map[string]string{
		"half an object": `{"a":`, "a word": "hello", "two values": "{} {}", "a trailing comma": `{"a":1,}`, "a form": "a=1&b=2",
		"a byte order mark": "\xef\xbb\xbf{}", "bytes": "\xff\xfe\x00", "XML": `<a/>`, "a comment": "{} // x", "single quotes": "{'a':1}",
		"NaN": `{"a":NaN}`, "as many brackets as there may be": strings.Repeat("[", o.BodySize),
	} {
		send(name, text, 400)
	}
	if o.Body.Type != nil {
		for _, text := range []string{"[]", `""`, "5", "true", "[{}]", `"{}"`} {
			send(text, text, 400)
		}
	}
	if o.BodyRequired {
		send("nothing", "", 400)
		send("null", "null", 400)
		send("spaces", "  \n", 400)
	} else {
		send("nothing", "")
		send("null", "null")
	}
	send("a byte too many", strings.Repeat(" ", o.BodySize-1)+"{}", 413)
	send("1 MiB and more", `{"a":"`+strings.Repeat("a", 1<<20)+`"}`, 413)
}
