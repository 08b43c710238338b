package app_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// The list of routes is the access matrix: a change of it is a change of who
// may do what, and shows in review.
func TestRoutes(t *testing.T) {
	t.Parallel()
	p := apptest.Start(t, apptest.Settings(t, dbtest.SQLiteConfig(t)), app.Options{}, nil)
	var lines []string
	for _, r := range p.App.Mux().Routes() {
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
	apptest.Golden(t, filepath.Join("testdata", "routes.golden"), []byte(strings.Join(lines, "\n")+"\n"))
}
