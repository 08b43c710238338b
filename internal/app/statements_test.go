package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// statement is one SQL text of the program.
type statement struct {
	name string // package and query
	text string
}

var (
	startsStatement = regexp.MustCompile(`^(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\s`)
	queryName       = regexp.MustCompile(`^-- name: (\w+)`)
	ofTheEngine     = regexp.MustCompile(`\b(river_|goose_|pg_advisory)`)
	placeholder     = regexp.MustCompile(`\$(\d+)`)
)

// statements are all SQL texts in the program's own packages, read from the
// source, so that none is forgotten.
func statements(t *testing.T) []statement {
	t.Helper()
	root, err := os.OpenRoot("..")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var all []statement
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "app/apptest/") {
			return err
		}
		source, err := root.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, text := range texts(file) {
			s := statement{name: filepath.Dir(path)}
			if m := queryName.FindStringSubmatch(text); m != nil {
				s.name += "." + m[1]
				_, text, _ = strings.Cut(text, "\n")
			}
			for strings.HasPrefix(text, "--") {
				_, text, _ = strings.Cut(text, "\n")
			}
			s.text = strings.TrimSuffix(strings.TrimSpace(text), ";")
			if startsStatement.MatchString(s.text) && !ofTheEngine.MatchString(s.text) && !strings.HasPrefix(s.name, "sqldb") {
				all = append(all, s)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d statements were found", len(all))
	}
	return all
}

// texts are the strings of a file. Of a sum, what is no literal is left out:
// that is the dialect's locking clause, which plans do not depend on.
func texts(file *ast.File) []string {
	var list []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch expression := node.(type) {
		case *ast.BinaryExpr, *ast.BasicLit:
			if text := sum(expression.(ast.Expr)); text != "" {
				list = append(list, text)
				return false
			}
		}
		return true
	})
	return list
}

func sum(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return sum(e.X) + sum(e.Y)
		}
	}
	return ""
}

// parameters is how many values the statement takes.
func (s statement) parameters() int {
	highest := 0
	for _, m := range placeholder.FindAllStringSubmatch(s.text, -1) {
		n, _ := strconv.Atoi(m[1])
		highest = max(highest, n)
	}
	return highest
}
