package app_test

import (
	"encoding/json"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// ground is what every area may import.
var ground = []string{"access", "audit", "fault", "jobs", "outbound", "ratelimit", "seal", "sqldb", "web"}

// edges are the further imports that are allowed between the rooms of
// internal/. An import that is not here, or on the ground, fails the test:
// change the table when the plan of the house changes, not to make it pass.
var edges = map[string][]string{
	"access":         {"fault"},
	"acme":           {"outbound"},
	"acmeaccounts":   {"acme"},
	"administration": {"identity", "mail"},
	"agent":          {},
	"apikeys":        {},
	"audit":          {"access", "durable", "fault", "seal", "sqldb", "web"},
	"authdns":        {},
	"certs":          {"acmeaccounts", "devices", "feed", "names"},
	"devices":        {},
	"durable":        {},
	"fault":          {},
	"feed":           {},
	"identity":       {"mail"},
	"installs":       {"devices", "feed"},
	"issuance":       {"acme", "acmeaccounts", "certs", "names", "webhooks"},
	"jobs":           {"sqldb"},
	"mail":           {},
	"names":          {"authdns", "mail"},
	"outbound":       {},
	"passkeys":       {"identity"},
	"providers":      {"identity"},
	"quotas":         {},
	"ratelimit":      {"fault", "jobs", "sqldb"},
	"seal":           {},
	"sqldb":          {"jobs"},                                  // migrate's test databases hold the job tables
	"web":            {"access", "fault", "ratelimit", "sqldb"}, // which address counts as one
	"webhooks":       {},
}

// areas may use the whole ground; the ground itself only what edges says.
func allowed(room string) []string {
	if slices.Contains(ground, room) {
		return edges[room]
	}
	return append(slices.Clone(ground), edges[room]...)
}

func TestImports(t *testing.T) {
	t.Parallel()
	const module = "certharbor.dev/certharbor/internal/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		from := room(strings.TrimPrefix(p.ImportPath, module))
		seen[from] = true
		if from == "app" || strings.HasSuffix(from, "test") {
			continue
		}
		if _, ok := edges[from]; !ok {
			t.Errorf("internal/%s has no line in the table", from)
		}
		for _, imported := range p.Imports {
			checkImport(t, from, imported, module)
		}
	}
	for from := range edges {
		if !seen[from] {
			t.Errorf("the table has a line for internal/%s, which does not exist", from)
		}
	}
}

func checkImport(t *testing.T, from, imported, module string) {
	t.Helper()
	to, ours := strings.CutPrefix(imported, module)
	to = room(to)
	switch {
	case ours && to != from && !slices.Contains(allowed(from), to):
		t.Errorf("internal/%s imports internal/%s, which the table does not allow", from, to)
	case strings.HasPrefix(imported, "github.com/danielgtaylor/huma") && from != "web":
		t.Errorf("internal/%s imports huma; only internal/web does", from)
	case strings.HasPrefix(imported, "github.com/riverqueue") && from != "jobs":
		t.Errorf("internal/%s imports River; only internal/jobs does", from)
	}
}

// room is the first folder: sqldb/migrate belongs to sqldb.
func room(p string) string {
	first, _, _ := strings.Cut(path.Clean(p), "/")
	return first
}
