package installs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

func parse(t testing.TB, text string) []Item {
	t.Helper()
	var items []Item
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return items
}

// replace gives the JSON of a good copy item with one member changed.
func replace(member, value string) string {
	members := map[string]string{"id": `"a"`, "type": `"copy"`, "ob_type": `"cert"`, "ob_id": `7`, "from": `["private.key","meta.json"]`, "to": `["/k",""]`}
	members[member] = value
	var parts []string
	for name, v := range members {
		if v != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, v))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestItemRules(t *testing.T) {
	t.Parallel()
	const imported = `"type":"import_ca","ob_type":"ca","ob_id":3,"from":["ca.pem"]`
	for _, c := range []struct {
		item   string
		member string // that is refused; "": accepted
	}{
		{replace("id", `"a"`), ""},
		{replace("id", `""`), ""},
		{replace("id", `"a\nb"`), "id"},
		{replace("id", `"`+strings.Repeat("x", maxName+1)+`"`), "id"},
		{replace("type", `"delete"`), "type"},
		{replace("type", `""`), "type"},
		{replace("ob_type", `"key"`), "ob_type"},
		{replace("ob_type", ``), "ob_type"},
		{replace("ob_type", `"ca"`), "from"}, // a CA has no private.key
		{replace("ob_id", `0`), "ob_id"},
		{replace("ob_id", `-7`), "ob_id"},
		{replace("ob_name", `"a\u0000b"`), "ob_name"},
		{replace("from", `[]`), "from"},
		{replace("from", ``), "from"},
		{replace("from", `["private.key"]`), "to"},
		{replace("from", `["private.key","../passwd"]`), "from"},
		{replace("from", `["private.key",""]`), "from"},
		{replace("to", `[]`), ""},
		{replace("to", ``), ""},
		{replace("to", `["",""]`), ""},
		{replace("to", `["/k"]`), "to"},
		{replace("to", `["/k","/m","/n"]`), "to"},
		{replace("tags", `["a","b c"]`), ""},
		{replace("tags", `["a\tb"]`), "tags"},
		{replace("timeout_ms", `-1`), "timeout_ms"},
		{replace("timeout_ms", `86400001`), "timeout_ms"},
		{replace("timeout_ms", `86400000`), ""},
		{replace("verify", `{"mode":"0600","deep":{"n":12345678901234567890}}`), ""},
		{replace("cmd", `""`), ""},
		{replace("cmd", `[]`), ""},
		{replace("cmd", `null`), ""},
		{replace("cmd", `"id"`), "cmd"},
		{replace("cmd", `["id"]`), "cmd"},
		{replace("cmd_argv", `["id"]`), "cmd"},
		{replace("run_as", `"root"`), "run_as"},
		{replace("env", `{"A":"b"}`), "env"},
		{replace("env", `{}`), ""},
		{replace("depends_on", `["nobody"]`), "depends_on"},
		{replace("depends_on", `["a"]`), "depends_on"},

		{`{"type":"copy","ob_type":"ca","ob_id":3,"from":["ca.pem","ca.der","meta.json"],"to":["/a","/b","/c"]}`, ""},
		{`{` + imported + `}`, ""},
		{`{` + imported + `,"to":[]}`, ""},
		{`{` + imported + `,"to":["/usr/local/share/ca.crt"]}`, ""},
		{`{` + imported + `,"ob_type":"cert"}`, "ob_type"},
		{`{` + imported + `,"from":["ca.der"]}`, "from"},
		{`{` + imported + `,"from":["ca.pem","ca.pem"],"to":[]}`, "from"},

		{`{"type":"exec","cmd":"systemctl reload nginx\ntrue"}`, ""},
		{`{"type":"exec","cmd":["systemctl","reload",""]}`, ""},
		{`{"type":"exec","cmd_argv":["a"],"cmd":["a"]}`, ""},
		{`{"type":"exec","cmd":"a","run_as":"www-data","env":{"PATH":"/bin","ProgramFiles(x86)":""}}`, ""},
		{`{"type":"exec"}`, "cmd"},
		{`{"type":"exec","cmd":7}`, "cmd"},
		{`{"type":"exec","cmd":{}}`, "cmd"},
		{`{"type":"exec","cmd":true}`, "cmd"},
		{`{"type":"exec","cmd":["a",7]}`, "cmd"},
		{`{"type":"exec","cmd":["a",null]}`, "cmd"},
		{`{"type":"exec","cmd":["","a"]}`, "cmd"},
		{`{"type":"exec","cmd":"a\u0000b"}`, "cmd"},
		{`{"type":"exec","cmd":"a","cmd_argv":["a"]}`, "cmd_argv"},
		{`{"type":"exec","cmd":["a"],"cmd_argv":["b"]}`, "cmd_argv"},
		{`{"type":"exec","cmd":"a","from":["ca.pem"]}`, "from"},
		{`{"type":"exec","cmd":"a","to":["/x"]}`, "from"},
		{`{"type":"exec","cmd":"a","ob_type":"cert","ob_id":1,"run_as":"www","env":{"A":"b"},"timeout_ms":5}`, ""},
		{`{"type":"exec","cmd":"a","ob_type":"ca","ob_id":1}`, ""},
		{`{"type":"exec","cmd":"a","ob_type":"key","ob_id":1}`, "ob_type"},
		{`{"type":"exec","cmd":"a","run_as":"a\nb"}`, "run_as"},
		{`{"type":"exec","cmd":"a","env":{"":"x"}}`, "env"},
		{`{"type":"exec","cmd":"a","env":{"A=B":"x"}}`, "env"},
		{`{"type":"exec","cmd":"a","env":{"A":"x\u0000"}}`, "env"},
		{`{"type":"exec","cmd":"` + strings.Repeat("x", maxText+1) + `"}`, "cmd"},
	} {
		_, text, err := normalise(parse(t, "["+c.item+"]"))
		switch {
		case c.member == "" && err != nil:
			t.Errorf("%.200s: %v", c.item, err)
		case c.member != "" && (!fault.Is(err, fault.CodeInvalid) || !strings.HasPrefix(fault.As(err).What, "installs[0]."+c.member)):
			t.Errorf("%.200s: %v %v, want a refusal of %s", c.item, text, err, c.member)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for path, good := range map[string]bool{
		"": true, "/etc/ssl/a.pem": true, "/a b/ü.pem": true, `C:\ssl\a.pem`: true, "c:/ssl/a.pem": true, `\\server\share\a.pem`: true, "/a/..b": true,
		"a.pem": false, "./a.pem": false, "../../etc/cron.d/x": false, "~/a": false, "C:a.pem": false, `\a.pem`: false,
		"/a/../b": false, `C:\a\..\b`: false, "/..": false, "/etc/ssl/": false, "/": false, "/a/.": false,
		"/a\x00b": false, "/a\nb": false, "/a\rb": false, "/a\x7f": false, "/" + strings.Repeat("x", maxPath): false,
	} {
		if problem := pathProblem(path); (problem == "") != good {
			t.Errorf("%.40q: %q", path, problem)
		}
	}
}

func TestSetsOfItems(t *testing.T) {
	t.Parallel()
	exec := func(id, after string) string {
		return fmt.Sprintf(`{"id":%q,"type":"exec","cmd":"true","depends_on":[%s]}`, id, after)
	}
	for _, c := range []struct{ name, items, what string }{
		{"none", ``, ""},
		{"chain", exec("a", ``) + "," + exec("b", `"a"`) + "," + exec("c", `"a","b"`), ""},
		{"forward", exec("a", `"b"`) + "," + exec("b", ``), ""},
		{"on a made id", exec("", ``) + "," + exec("b", `"step-1"`), ""},
		{"twice the same id", exec("a", ``) + "," + exec("a", ``), "installs[1].id"},
		{"circle of two", exec("a", `"b"`) + "," + exec("b", `"a"`), "installs[0].depends_on"},
		{"circle behind a start", exec("s", ``) + "," + exec("a", `"s","c"`) + "," + exec("b", `"a"`) + "," + exec("c", `"b"`), "installs[1].depends_on"},
		{"unknown", exec("a", `"x"`), "installs[0].depends_on"},
		{"named twice", exec("a", ``) + "," + exec("b", `"a","a"`), "installs[1].depends_on"},
		{"too many", strings.TrimSuffix(strings.Repeat(exec("", ``)+",", maxItems+1), ","), "installs"},
	} {
		_, _, err := normalise(parse(t, "["+c.items+"]"))
		if (err == nil) != (c.what == "") || (err != nil && !strings.HasPrefix(fault.As(err).What, c.what)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	given := parse(t, `[
		{"type":"exec","cmd_argv":["a","<b>"],"cmd":"","verify":{"b": 1.50 ,"a":{"z":1,"y":12345678901234567890}}},
		{"id":"step-1","type":"copy","ob_type":"ca","ob_id":1,"from":["ca.pem"],"enabled":false},
		{"type":"exec","cmd":"echo \u003cx\u003e","env":{"B":"2","A":"1"},"tags":[],"continue_on_error":true}]`)
	items, text, err := normalise(given)
	want := `[{"id":"step-2","type":"exec","enabled":true,"cmd":["a","<b>"],"verify":{"a":{"z":1,"y":12345678901234567890},"b":1.50}},` +
		`{"id":"step-1","type":"copy","enabled":false,"ob_type":"ca","ob_id":1,"from":["ca.pem"],"to":[]},` +
		`{"id":"step-3","type":"exec","enabled":true,"continue_on_error":true,"cmd":"echo <x>","env":{"A":"1","B":"2"}}]`
	if err != nil || text != want {
		t.Fatalf("%v\n%s, want\n%s", err, text, want)
	}
	if given[0].ID != "" || given[0].CmdArgv == nil {
		t.Error("the argument was changed")
	}
	if _, again, err := normalise(items); err != nil || again != text {
		t.Errorf("not a fixed point: %v\n%s", err, again)
	}
	if digest("[]") != "T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU=" {
		t.Error("the digest is not base64 of SHA-256:", digest("[]"))
	}
}

// FuzzItems requires of everything that is accepted: it is a fixed point, also
// through its own JSON, and no target leaves the rules.
func FuzzItems(f *testing.F) {
	f.Add([]byte(`[]`))
	f.Add([]byte(`[` + replace("id", `""`) + `]`))
	f.Add([]byte(`[{"type":"exec","cmd":["a","b"],"env":{"A":"b"},"verify":{"x":[1,{"y":null}]}}]`))
	f.Add([]byte(`[{"type":"import_ca","ob_type":"ca","ob_id":3,"from":["ca.pem"]},{"type":"exec","cmd":"a","depends_on":["step-1"]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var given []Item
		if json.Unmarshal(body, &given) != nil {
			return
		}
		items, text, err := normalise(given)
		if err != nil {
			if !fault.Is(err, fault.CodeInvalid) {
				t.Fatalf("not a 5000: %v", err)
			}
			return
		}
		decoded, err := decodeItems(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, err := normalise(decoded); err != nil || again != text {
			t.Fatalf("not a fixed point: %v\n%s\n%s", err, text, again)
		}
		ids := map[string]bool{}
		for _, it := range items {
			if it.ID == "" || ids[it.ID] || len(it.CmdArgv) > 0 || (len(it.To) > 0 && len(it.To) != len(it.From)) {
				t.Fatalf("accepted %+v", it)
			}
			ids[it.ID] = true
			for _, to := range it.To {
				if strings.ContainsAny(to, "\x00\n") || (to != "" && !absolute(to)) {
					t.Fatalf("accepted the target %q", to)
				}
			}
		}
	})
}

func FuzzChanges(f *testing.F) {
	f.Add([]byte(`[{"ob_type":"cert","ob_id":7,"to":"/etc/ssl"}]`))
	f.Add([]byte(`{"patches":[{"ob_type":"cert","ob_id":7,"id":"web","enabled":false,"to":["/a",""]}],"after_update_script":null}`))
	f.Add([]byte(`{"after_update_script":"true"}`))
	f.Add([]byte(`[{"ob_type":"ca","ob_id":3,"type":"exec","cmd":["x"],"timeout_ms":5,"env":{"A":"b"}}]`))
	items := parse(f, `[`+replace("id", `"web"`)+`,{"id":"ca","type":"import_ca","ob_type":"ca","ob_id":3,"from":["ca.pem"]}]`)
	f.Fuzz(func(t *testing.T, body []byte) {
		changes, err := ParseChanges(body)
		if err != nil {
			if !fault.Is(err, fault.CodeInvalid) {
				t.Fatalf("not a 5000: %v", err)
			}
			return
		}
		if len(changes.Patches) == 0 && !changes.Script.Set {
			t.Fatal("accepted nothing")
		}
		patched, err := apply(items, changes.Patches)
		if err == nil {
			_, _, err = normalise(patched)
		}
		if err != nil && fault.As(err) == nil {
			t.Fatalf("not a fault: %v", err)
		}
	})
}
