package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTests are the tests that the decision record names, as package.Name.
var namedTests = regexp.MustCompile("`([a-z]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")

// TestThreatTable: the tests that are said to show that a threat is met are
// there, under these names.
func TestThreatTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "decisions", "0017-threats-and-tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := namedTests.FindAllStringSubmatch(string(text), -1)
	if len(names) < 100 {
		t.Errorf("only %d tests are named", len(names))
	}
	there := map[string][]string{}
	for _, match := range names {
		folder, name := match[1], match[2]
		if there[folder] == nil {
			there[folder] = testsOf(t, folder)
		}
		if !slices.Contains(there[folder], name) {
			t.Errorf("there is no %[1]s in internal/%[2]s or test/%[2]s", name, folder)
		}
	}
}

func testsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	var files []string
	for _, parent := range []string{"..", filepath.Join("..", "agent"), filepath.Join("..", "..", "test")} {
		found, err := filepath.Glob(filepath.Join(parent, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatalf("no tests in a folder %s", folder)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if rest, ok := strings.CutPrefix(line, "func "); ok {
				name, _, _ := strings.Cut(rest, "(")
				names = append(names, name)
			}
		}
	}
	return names
}
