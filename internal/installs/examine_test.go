package installs

import (
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Every configuration on which an agent drops a batch is refused, or the answer
// says so; no other has a warning.
func TestWhatAgentsDropABatchFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		h.shelf.certs[8] = "has not been issued yet"
		copied := func(ob string, id int, more string) string {
			from := map[string]string{"cert": "fullchain.pem", "ca": "ca.pem"}[ob]
			return fmt.Sprintf(`{"id":"a","type":"copy","ob_type":%q,"ob_id":%d,"from":[%q],"to":["/a"]%s}`, ob, id, from, more)
		}
		exec := func(more string) string { return `{"id":"a","type":"exec","cmd":"x"` + more + `}` }
		for _, c := range []struct {
			name, item string
			status     int
			want       []string // parts of the one warning, or of the refusal
		}{
			{"a certificate of the device", copied("cert", 7, ""), 200, nil},
			{"one that it cannot fetch", copied("cert", 8, ""), 200, []string{"installs[0]", `item "a"`, "certificate 8", "has not been issued yet"}},
			{"one that is not the user's", copied("cert", 9, ""), 200, []string{"installs[0]", "certificate 9", "none of yours"}},
			{"switched off", copied("cert", 9, `,"enabled":false`), 200, nil},
			{"without a target", strings.Replace(copied("cert", 9, ""), `"/a"`, `""`, 1), 200, nil},
			{"a CA", copied("ca", 3, ""), 200, nil},
			{"a CA that there is not", copied("ca", 4, ""), 400, []string{"installs[0].ob_id", `item "a"`, "certificate authority"}},
			{"its import", `{"id":"a","type":"import_ca","ob_type":"ca","ob_id":4,"from":["ca.pem"]}`, 400, []string{"installs[0].ob_id"}},
			{"its import, switched off", `{"id":"a","type":"import_ca","ob_type":"ca","ob_id":4,"from":["ca.pem"],"enabled":false}`, 200, nil},
			{"a command of nothing", exec(""), 200, []string{"installs[0]", `item "a"`, "ob_type and ob_id", "after_update_script"}},
			{"a command of a type alone", exec(`,"ob_type":"ca"`), 200, []string{"ob_type and ob_id"}},
			{"a command of an id alone", exec(`,"ob_id":3`), 200, []string{"ob_type and ob_id"}},
			{"a command of a CA", exec(`,"ob_type":"ca","ob_id":3`), 200, nil},
			{"a command of a CA that there is not", exec(`,"ob_type":"ca","ob_id":4`), 200, []string{"CA 4"}},
			{"a command of a certificate", exec(`,"ob_type":"cert","ob_id":7`), 200, []string{"drop its cmd", "after_update_script"}},
			{"a command, switched off", exec(`,"enabled":false`), 200, nil},
			{"a command on a certificate", copied("cert", 7, `,"cmd":"x"`), 400, []string{"installs[0].cmd", "after_update_script"}},
		} {
			w := h.call(t, asUser, "PUT", configPath, `{"installs":[`+c.item+`]}`)
			a := want[Config](t, w, c.status)
			text := a.Error.What
			if c.status == 200 {
				text = strings.Join(a.Warnings, "\n")
				if len(a.Warnings) != min(1, len(c.want)) {
					t.Errorf("%s: warnings %q", c.name, a.Warnings)
				}
			}
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("%s: %q does not say %q", c.name, text, part)
				}
			}
		}
		for script, problem := range map[string]string{
			"systemctl reload nginx\n": "",
			"@@@BEGIN posix.sh\ntrue\n@@@END\n@@@BEGIN Windows.CMD\nrem\n@@@END": "",
			"@@@BEGIN posix.sh\ntrue\n":                       "@@@END",
			"@@@BEGIN bash\ntrue\n@@@END":                     `"bash"`,
			"@@@BEGIN posix.sh\n@@@BEGIN windows.cmd\n@@@END": "before it ends",
			"true\n@@@END\n":                                  "never began",
		} {
			a := want[Config](t, h.call(t, asUser, "PUT", configPath, map[string]any{"installs": []any{}, "after_update_script": script}), 200)
			if got := strings.Join(a.Warnings, "\n"); (got == "") != (problem == "") || !strings.Contains(got, problem) {
				t.Errorf("%q: %q", script, got)
			}
		}
	})
}

// A patch by API key and a restored version say the same. A patch cannot mend
// what an item names, so it is not refused for that.
func TestWarningsOfPatchAndRestore(t *testing.T) {
	t.Parallel()
	h := newHouse(t, dbtest.SQLite(t))
	h.put(t, threeSteps) // version 1, with a command of nothing
	a := want[Patched](t, h.call(t, asKey, "POST", patchBase+publicID(1), `[{"ob_type":"cert","ob_id":7,"enabled":true}]`), 200)
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "installs[3]") || a.Data.Version != 2 {
		t.Errorf("patch: %+v", a)
	}
	h.shelf.certs[7] = "is not assigned to the device"
	delete(h.shelf.cas, 3)
	a = want[Patched](t, h.call(t, asKey, "POST", patchBase+publicID(1), `[{"ob_type":"cert","ob_id":7,"enabled":true}]`), 200)
	if len(a.Warnings) != 4 {
		t.Errorf("patch: %q", a.Warnings)
	}
	want[any](t, h.call(t, asUser, "POST", configPath+"/restore", `{"version":1}`), 400)
	h.shelf.cas[3] = true
	if b := want[Config](t, h.call(t, asUser, "POST", configPath+"/restore", `{"version":1}`), 200); len(b.Warnings) != 3 || b.Data.Version != 4 {
		t.Errorf("restore: %+v", b)
	}
	many := strings.Repeat(`{"type":"exec","cmd":"x"},`, 200) + `{"type":"exec","cmd":"x"}`
	if b := want[Config](t, h.call(t, asUser, "PUT", configPath, `{"installs":[`+many+`]}`), 200); len(b.Warnings) != maxWarnings+1 || !strings.HasPrefix(b.Warnings[maxWarnings], "151 more") {
		t.Errorf("%d warnings", len(b.Warnings))
	}
}

// What one write looks at is bounded, and it says where it stopped.
func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, dbtest.SQLite(t))
	var items []string
	for id := range maxLooked + 20 {
		h.shelf.certs[int64(id+1)] = map[bool]string{true: "has not been issued yet"}[id >= maxLooked-5]
		items = append(items, fmt.Sprintf(`{"type":"copy","ob_type":"cert","ob_id":%d,"from":["fullchain.pem"],"to":["/a"]}`, id+1))
	}
	a := want[Config](t, h.call(t, asUser, "PUT", configPath, `{"installs":[`+strings.Join(items, ",")+`]}`), 200)
	if len(a.Warnings) != 6 || !strings.Contains(a.Warnings[0], "120 certificates") || !strings.Contains(a.Warnings[0], "last 20") {
		t.Errorf("%q", a.Warnings)
	}
}

// A copy and the command after it may name the same certificate: a patch of both
// changes of each what it can have.
func TestPatchOfCopyAndCommand(t *testing.T) {
	t.Parallel()
	h := newHouse(t, dbtest.SQLite(t))
	h.put(t, `{"installs":[{"id":"c","type":"copy","ob_type":"cert","ob_id":7,"from":["fullchain.pem"],"to":["/a"]},
		{"id":"x","type":"exec","ob_type":"cert","ob_id":7,"cmd":"true"}]}`)
	h.patch(t, `[{"ob_type":"cert","ob_id":7,"to":"/b","cmd":"false","timeout_ms":9,"env":{"A":"b"}}]`)
	c := h.config(t).Installs
	if c[0].To[0] != "/b" || c[0].Cmd != nil || c[0].Env != nil || string(c[1].Cmd) != `"false"` || c[1].Env["A"] != "b" || len(c[1].To) != 0 || c[1].TimeoutMS != 9 {
		t.Errorf("%+v", c)
	}
	want[any](t, h.call(t, asKey, "POST", patchBase+publicID(1), `[{"ob_type":"cert","ob_id":7,"id":"c","cmd":"x"}]`), 400)
	want[any](t, h.call(t, asKey, "POST", patchBase+publicID(1), `[{"ob_type":"cert","ob_id":7,"id":"x","to":"/b"}]`), 400)
}
