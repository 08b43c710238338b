package apptest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Needle is a secret, and where it may be.
type Needle struct {
	Name    string
	Value   string
	Answers []string // names of the answers that hand it out
	Stored  bool     // the database holds it as it is, which is meant
}

// forms are the shapes in which a secret could be written down.
func (n Needle) forms() []string {
	raw := []byte(n.Value)
	return []string{
		n.Value, hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
		base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		strings.Trim(fmt.Sprintf("%d", raw), "[]"), strings.Trim(fmt.Sprintf("%q", n.Value), `"`),
	}
}

// In reports whether text holds the secret in any shape.
func (n Needle) In(text []byte) bool {
	for _, form := range n.forms() {
		if len(form) >= 6 && bytes.Contains(text, []byte(form)) {
			return true
		}
	}
	return false
}

// Stored is the database as an intruder finds it: the files of SQLite with the
// log that is not yet in them, or every row of PostgreSQL as text.
func Stored(t *testing.T, db sqldb.Config) []byte {
	t.Helper()
	if db.Path != "" {
		folder := strings.TrimSuffix(db.Path, "/certharbor.db")
		return files(t, folder, func(name string) bool { return strings.HasPrefix(name, "certharbor.db") })
	}
	opened, err := sqldb.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var all bytes.Buffer
	for _, table := range Column(t, opened.Writer(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`) {
		for _, row := range Column(t, opened.Writer(), `SELECT r::text FROM "`+table+`" r`) {
			all.WriteString(row + "\n")
		}
	}
	return all.Bytes()
}

// files are the contents of the files of a folder.
func files(t *testing.T, folder string, wanted func(name string) bool) []byte {
	t.Helper()
	var all bytes.Buffer
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !wanted(entry.Name()) {
			return err
		}
		content, err := fs.ReadFile(root, path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}
