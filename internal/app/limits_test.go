package app_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// boundsOfCode are bounds that constants hold: where the constant is, how it is
// called, and what the row that names it begins with.
var boundsOfCode = []struct{ folder, constant, row string }{
	{"web", "PublicBody", "Body on a route that needs no credential"},
	{"web", "DefaultBody", "Body on any other route"},
	{"web", "LargeBody", "Body where certificates, keys or configurations are written"},
	{"web", "BodiesInFlight", "Bodies in flight, all together"},
	{"web", "strangersShare", "Bodies in flight of requests without a credential"},
	{"web", "addressShare", "Bodies in flight of one address without a credential"},
	{"web", "callersShare", "Bodies in flight of one user"},
	{"web", "bodiesDecoded", "Bodies being decoded"},
	{"web", "PageBytes", "Rows of a page of a list"},
	{"web", "SmallPageBytes", "Rows of a page of a list"},
	{"web", "AnswersInMaking", "Answers being made and sent |"},
	{"web", "answersShare", "Answers being made and sent for one user"},
	{"web", "maxUserAgent", "Text that a client calls itself"},
	{"certs", "maxChainText", "Chain of an imported certificate"},
	{"certs", "maxCertificates", "Chain of an imported certificate"},
	{"certs", "MaxNames", "Names of a certificate"},
	{"acme", "maxClients", "Clients of ACME directories in memory"},
	{"installs", "maxItems", "Install configuration of a device"},
	{"installs", "maxInstalls", "Install configuration of a device"},
	{"feed", "maxAnswer", "Page of a device's signals"},
	{"feed", "maxWaiting", "Long polls that wait"},
	{"feed", "maxOfDevice", "Long polls of one device that wait"},
	{"app", "defaultConnections", "Connections on all listeners"},
	{"app", "strangersConnections", "Connections of one address"},
	{"names", "maxHeld", "Claims on names of a user"},
	{"names", "maxPending", "Names of a user that wait for a record"},
	{"names", "maxGrants", "Grants on a name"},
	{"names", "checksAnHour", "Look-ups of records that a user asks for"},
	{"names", "checkBatch", "Re-checks of records in a sweep"},
	{"authdns", "maxServers", "Name servers of a zone"},
	{"sqldb", "maxLog", "SQLite's write-ahead log"},
}

// TestLimits: the table of bounds says what the code says, and the tests that it
// names are there.
func TestLimits(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| What |") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	if len(rows) < 30 {
		t.Errorf("only %d rows", len(rows))
	}
	for _, bound := range boundsOfCode {
		value := constantOf(t, bound.folder, bound.constant)
		begin := "| " + bound.row
		i := slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, begin) })
		if i < 0 {
			t.Errorf("docs/limits.md has no row %q (%s.%s is %s)", begin, bound.folder, bound.constant, inUnits(value))
			continue
		}
		cells := strings.Split(rows[i], "|")
		if !regexp.MustCompile(`(^|[^0-9,])`+regexp.QuoteMeta(inUnits(value))+`($|[^0-9])`).MatchString(cells[2]) && !strings.Contains(cells[2], thousands(value)) {
			t.Errorf("%s.%s is %s; the row says %s", bound.folder, bound.constant, inUnits(value), rows[i])
		}
	}
	tests := allTests(t)
	for _, row := range rows {
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			t.Errorf("%d cells, want what, bound, at it, test: %s", len(cells)-2, row)
			continue
		}
		named := namedTests.FindAllStringSubmatch(cells[4], -1)
		if len(named) == 0 {
			t.Errorf("names no test as `package.TestName`: %s", row)
		}
		for _, name := range named {
			if !tests[name[1]+"."+name[2]] {
				t.Errorf("there is no test %s.%s: %s", name[1], name[2], row)
			}
		}
	}
}

// constantOf evaluates a constant of a folder of internal/.
func constantOf(t *testing.T, folder, name string) int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok || len(value.Values) != 1 || value.Names[0].Name != name {
					continue
				}
				evaluated, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(value.Values[0]))
				if err != nil {
					t.Fatalf("%s.%s: %v", folder, name, err)
				}
				n, _ := constant.Int64Val(evaluated.Value)
				return n
			}
		}
	}
	t.Errorf("internal/%s has no constant %s", folder, name)
	return 0
}

// inUnits writes a number of bytes or things as the table does.
func inUnits(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<14 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return thousands(n)
}

func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// allTests are the tests of all packages, as package.TestName.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || entry.IsDir() {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // of the repository
		if err != nil {
			return err
		}
		folder := filepath.Base(filepath.Dir(path))
		if filepath.Base(filepath.Dir(filepath.Dir(path))) == "cmd" {
			folder = "main"
		}
		for line := range strings.Lines(string(source)) {
			if rest, ok := strings.CutPrefix(line, "func "); ok {
				name, _, _ := strings.Cut(rest, "(")
				tests[folder+"."+name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
