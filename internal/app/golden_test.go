package app_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The list of routes is the access matrix: a change of it is a change of who
// may do what, and shows in review.
func TestRoutes(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, dbtest.SQLiteConfig(t)), app.Options{}, nil)
	var lines []string
	for _, r := range p.app.Mux().Routes() {
		kind := ""
		if r.Raw {
			kind = " (raw)"
		}
		if r.Body > 0 {
			kind += fmt.Sprintf(" | body %d KiB", r.Body>>10)
		}
		lines = append(lines, fmt.Sprintf("%-6s %s | %s%s", r.Method, r.Path, r.Rule, kind))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Or(strings.Compare(a[7:], b[7:]), strings.Compare(a, b)) })
	golden(t, filepath.Join("testdata", "routes.golden"), []byte(strings.Join(lines, "\n")+"\n"))
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; look at the difference and, if it is meant, run: go test ./internal/app -run %s -update\ngot:\n%s", path, t.Name(), got)
	}
}
