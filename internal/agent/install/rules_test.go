package install

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/agent/statedir"
)

func engine(t testing.TB) *Engine {
	t.Helper()
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return &Engine{State: state, Log: slog.New(slog.DiscardHandler)}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	e := engine(t)
	inside, err := json.Marshal(e.State.Path() + "/session.json")
	if err != nil {
		t.Fatal(err)
	}
	to := func(path string) string {
		return `{"id":"a","type":"copy","ob_type":"cert","ob_id":5,"from":["private.key"],"to":[` + path + `]}`
	}
	tests := map[string]string{ // item → words of the reason; "" = accepted
		to(`"/etc/x/key.pem"`):             "",
		to(`""`):                           "",
		to(`"etc/x"`):                      "absolute",
		to(`"../x"`):                       "absolute",
		to(`"/etc/../cron.d/x"`):           "plain file path",
		to(`"/etc/"`):                      "plain file path",
		to(`"/"`):                          "plain file path",
		to(`"/etc/a\u0000b"`):              "control",
		to(`"/etc/a\nb"`):                  "control",
		to(`"/a","/b"`):                    "equally many",
		to(string(inside)):                 "state folder",
		`{"type":"copy","ob_type":"cert"}`: "ob_id",
		`{"type":"copy","ob_type":"cert","ob_id":5}`:                             "equally many",
		`{"type":"copy","ob_type":"cert","ob_id":5,"from":["key"],"to":["/a"]}`:  "from[0]",
		`{"type":"copy","ob_type":"cert","ob_id":5,"from":["ca.pem"]}`:           "from[0]",
		`{"type":"copy","ob_type":"ca","ob_id":5,"from":["ca.pem"],"to":["/a"]}`: "",
		`{"type":"copy","ob_type":"key","ob_id":5,"from":["a"],"to":["/a"]}`:     "ob_type",
		`{"type":"import_ca","ob_type":"cert","ob_id":5}`:                        "ob_type",
		`{"type":"import_ca","ob_type":"ca","ob_id":5}`:                          "--trust-dir",
		`{"type":"exec"}`: "cmd is empty",
		`{"type":"exec","cmd":"","cmd_argv":[],"verify":{}}`: "cmd is empty",
		`{"type":"exec","cmd":["",""]}`:                      "cmd[0]",
		`{"type":"exec","cmd_argv":["true"]}`:                "",
		`{"type":"exec","cmd":"true","env":{"A=B":"x"}}`:     "env",
		`{"type":"exec","cmd":"true","timeout_ms":-1}`:       "timeout_ms",
		`{"type":"reboot"}`:                                  "update the agent",
	}
	for text, want := range tests {
		cfg, err := Parse([]byte(`{"installs":[` + text + `]}`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		err = e.check(&cfg.Installs[0])
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestOrderAndGroups(t *testing.T) {
	t.Parallel()
	item := func(id, kind, deps string) string {
		body := `"type":"exec","cmd":"true"`
		if kind != "x" {
			body = `"type":"copy","ob_type":"cert","ob_id":` + kind + `,"from":["fullchain.pem","private.key"],"to":["/t/` + id + `.c","/t/` + id + `.k"]`
		}
		quoted := `[]`
		if deps != "" {
			quoted = `["` + strings.ReplaceAll(deps, ",", `","`) + `"]`
		}
		return `{"id":"` + id + `",` + body + `,"depends_on":` + quoted + `}`
	}
	tests := map[string]struct {
		items []string
		want  string // groups, items in order; ! marks an error
	}{
		"listed order":        {[]string{item("a", "1", ""), item("b", "2", "")}, "a|b"},
		"dependency first":    {[]string{item("r", "x", "a"), item("a", "1", "")}, "a,r"},
		"two services":        {[]string{item("a", "1", ""), item("ra", "x", "a"), item("b", "1", ""), item("rb", "x", "b")}, "a,ra|b,rb"},
		"follows all before":  {[]string{item("a", "1", ""), item("b", "2", ""), item("r", "x", ""), item("c", "3", "")}, "a,b,r|c"},
		"chain":               {[]string{item("a", "1", ""), item("t", "x", "a"), item("r", "x", "t")}, "a,t,r"},
		"circle":              {[]string{item("a", "1", "r"), item("r", "x", "a"), item("b", "2", "")}, "b|!a,!r"},
		"unknown dependency":  {[]string{item("a", "1", "zz")}, "!a"},
		"same id":             {[]string{item("a", "1", ""), item("a", "2", "")}, "a|!a"},
		"disabled dependency": {[]string{`{"id":"d","enabled":false}`, item("r", "x", "d")}, "r"},
		"depends on itself":   {[]string{item("a", "1", "a")}, "!a"},
		"same file": {[]string{item("a", "1", ""), `{"id":"b","type":"copy","ob_type":"cert","ob_id":2,"from":["private.key"],"to":["/t/a.k"]}`},
			"a|!b"},
		"halves of one pair": {[]string{
			`{"id":"k","type":"copy","ob_type":"cert","ob_id":1,"from":["private.key"],"to":["/t/k"]}`,
			`{"id":"o","type":"copy","ob_type":"cert","ob_id":2,"from":["private.key"],"to":["/t/o"]}`,
			`{"id":"c","type":"copy","ob_type":"cert","ob_id":1,"from":["fullchain.pem"],"to":["/t/c"]}`}, "k,c|o"},
	}
	for name, tt := range tests {
		cfg, err := Parse([]byte(`{"installs":[` + strings.Join(tt.items, ",") + `]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g := engine(t).newGraph(cfg)
		var groups []string
		for _, members := range g.groups() {
			var ids []string
			for _, i := range members {
				mark := ""
				if g.nodes[i].err != nil {
					mark = "!"
				}
				ids = append(ids, mark+g.nodes[i].item.ID)
			}
			groups = append(groups, strings.Join(ids, ","))
		}
		if got := strings.Join(groups, "|"); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestPosixScript(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":             "",
		"echo a\n":     "echo a\n",
		"#!/bin/sh\nx": "#!/bin/sh\nx",
		"@@@BEGIN posix.sh\necho a\n@@@END\n@@@BEGIN windows.cmd\ndir\n@@@END\n": "echo a\n",
		"@@@BEGIN Posix.SH\r\necho a\n@@@END\n":                                  "echo a\n",
		"@@@BEGIN windows.pwsh\nls\n@@@END":                                      "",
		"@@@BEGIN posix.sh\na\n@@@END\n@@@BEGIN posix.sh\nb\n@@@END":             "a\nb\n",
	}
	for text, want := range tests {
		if got := posixScript(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever the server sends, planning ends and names only checked targets.
func FuzzPlan(f *testing.F) {
	f.Add(`{"version":1,"installs":[{"id":"a","type":"copy","ob_type":"cert","ob_id":5,"from":["private.key"],"to":["/x"]},{"id":"r","type":"exec","cmd":["a"],"depends_on":["a"]}],"after_update_script":null}`)
	f.Add(`{"installs":[{"id":"a","type":"exec","cmd":"x","depends_on":["b"]},{"id":"b","type":"exec","cmd":"x","depends_on":["a","a"]}]}`)
	f.Add(`{"installs":[{"cmd":{"shell":"x"},"verify":{"tls":{}},"env":{"":""},"enabled":false},{},{"type":"copy","from":null,"to":[""]}]}`)
	e := engine(f)
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := Parse([]byte(text))
		if err != nil || len(cfg.Installs) > 50 {
			return
		}
		g := e.newGraph(cfg)
		seen := 0
		for _, members := range g.groups() {
			seen += len(members)
			g.decide(members, e.seen(g, members), false)
		}
		if seen != len(g.nodes) {
			t.Errorf("%d of %d items are in a group", seen, len(g.nodes))
		}
		for _, n := range g.nodes {
			for _, target := range n.targets {
				if n.err == nil && (!filepath.IsAbs(target.to) || strings.Contains(target.to, "\x00") || within(e.State.Path(), target.to)) {
					t.Errorf("target %q passes", target.to)
				}
			}
		}
	})
}

// seen gives views without looking at the disk.
func (e *Engine) seen(g *graph, members []int) map[int]*view {
	all := map[int]*view{}
	for _, i := range members {
		all[i] = &view{node: i, item: g.nodes[i].item, err: g.nodes[i].err, state: &ItemState{}}
	}
	return all
}
