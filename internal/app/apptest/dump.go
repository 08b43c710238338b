package apptest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// finder looks for many texts at once: by their first eight bytes.
type finder struct {
	heads map[uint64][]trace
	rough [1 << 16]bool // by two bytes of a head, to pass over most places quickly
}

// trace is one form of a secret.
type trace struct {
	form   []byte
	what   string
	digits bool // six of them: they count alone only, not within a number
}

// NewFinder prepares the search for all that was recorded, in every form in
// which a program could write it down: as it is, as bytes when it is base64url,
// in hex and in base64 at any place of a longer text, and, where there are few
// possible values, as a plain hash.
func NewFinder(secrets map[string]string) *finder {
	f := &finder{heads: map[uint64][]trace{}}
	for value, what := range secrets {
		f.add(value, what)
		if what == "user_code" {
			f.add(strings.ReplaceAll(value, "-", ""), what)
		}
		if raw, err := base64.RawURLEncoding.DecodeString(value); err == nil && len(raw) >= 16 {
			f.add(string(raw), what+", decoded")
		}
		if len(value) == 6 {
			sum := sha256.Sum256([]byte(value))
			f.add(string(sum[:]), what+", as a plain SHA-256")
		}
	}
	return f
}

func (f *finder) add(value, what string) {
	raw := []byte(value)
	digits := len(value) == 6
	f.form(raw, what, digits)
	f.form([]byte(hex.EncodeToString(raw)), what+" in hex", false)
	f.form([]byte(strings.ToUpper(hex.EncodeToString(raw))), what+" in hex", false)
	for shift := range 3 { // what stands before it moves the groups of base64
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(append(make([]byte, shift), raw...))
			from := []int{0, 2, 3}[shift]
			f.form([]byte(encoded[from:len(encoded)-1]), what+" in base64", false) // the last may hold bits of what follows
		}
	}
}

func (f *finder) form(form []byte, what string, digits bool) {
	if len(form) < 6 {
		return
	}
	if len(form) < 8 { // six digits, and base64 of them: looked for from two places
		if digits {
			f.rest(form, what)
		}
		return
	}
	head := binary.BigEndian.Uint64(form)
	f.heads[head] = append(f.heads[head], trace{form, what, false})
	f.rough[head>>48] = true
}

// rest is for the codes: they stand between two bytes that are no digits.
func (f *finder) rest(form []byte, what string) {
	head := uint64(binary.BigEndian.Uint32(form)) // shorter than any other head
	f.heads[head] = append(f.heads[head], trace{form, what, true})
	f.rough[head>>16] = true
}

// Search calls back for each place where a secret is. codes are looked for as
// well, which would be found by chance among the bytes of a file.
func (f *finder) Search(text []byte, codes bool, report func(what string, at int)) {
	for i := f.next(text, 0); i+6 <= len(text); i = f.next(text, i+1) {
		var list []trace
		if i+8 <= len(text) {
			list = f.heads[binary.BigEndian.Uint64(text[i:])]
		}
		if codes {
			list = append(slices.Clip(list), f.heads[uint64(binary.BigEndian.Uint32(text[i:]))]...)
		}
		for _, t := range list {
			if bytes.HasPrefix(text[i:], t.form) && (!t.digits || alone(text, i, i+len(t.form))) {
				report(t.what, i)
			}
		}
	}
}

// next is the first place from i on where the rough look finds something. It
// looks at every byte of the database: under the race detector that took most of
// the time of many tests, and there is nothing here to race.
//
//go:norace
func (f *finder) next(text []byte, i int) int {
	for ; i+6 <= len(text); i++ {
		if f.rough[uint16(text[i])<<8|uint16(text[i+1])] {
			break
		}
	}
	return i
}

// alone reports whether the digits are no part of a number, nor of a time.
func alone(text []byte, from, to int) bool {
	before := from == 0 || !strings.ContainsRune("0123456789.abcdefABCDEF", rune(text[from-1]))
	after := to == len(text) || !strings.ContainsRune("0123456789.abcdefABCDEF", rune(text[to]))
	return before && after
}

// Durations are numbers of the log that are no codes.
var Durations = regexp.MustCompile(`"us":\d+`)

// checkSecrets ends a test: nothing that the program was given or handed out is
// in its log, nor in its database as an intruder finds it. files are SQLite's,
// read while the log of writes was still there.
func (p *Program) checkSecrets(files []byte) {
	p.T.Helper()
	for _, letter := range p.Outbox() {
		p.Secrets.add("code in a mail", letter)
	}
	f := NewFinder(p.Secrets.Found)
	report := func(where string, text []byte) func(string, int) {
		said := map[string]bool{}
		return func(what string, at int) {
			if !said[what] {
				said[what] = true
				p.Leak(fmt.Sprintf("%s holds a %s: %q", where, what, text[max(0, at-80):min(len(text), at+60)]))
			}
		}
	}
	log := Durations.ReplaceAll([]byte(p.Log.String()), nil)
	f.Search(log, true, report("the log", log))
	f.Search(files, false, report("the files of the database", files))
	for table, cells := range Dump(p.T, p.Config) {
		f.Search(cells, true, report("table "+table, cells))
	}
}

// Outbox are the codes in mails that no mail server took.
func (p *Program) Outbox() (codes []string) {
	names, _ := filepath.Glob(filepath.Join(p.Config.Data, "outbox", "*.eml"))
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil {
			codes = append(codes, SixDigits.FindAllString(ReadLetter(p.T, string(text)).Text, -1)...)
		}
	}
	return codes
}

// databaseFiles are the bytes of SQLite's files, nothing for PostgreSQL.
func (p *Program) databaseFiles() (all []byte) {
	names, _ := filepath.Glob(filepath.Join(p.Config.Data, "certharbor.db*"))
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && p.Config.DB == "" {
			all = append(all, text...)
		}
	}
	return all
}

// Dump is every cell of every table, as it is stored.
func Dump(t testing.TB, c app.Config) map[string][]byte {
	t.Helper()
	db, err := app.OpenDatabase(context.WithoutCancel(t.Context()), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`
	if db.Dialect() == sqldb.SQLite {
		tables = `SELECT name FROM sqlite_master WHERE type = 'table'`
	}
	all := map[string][]byte{}
	for _, row := range Rows(t, db, tables) {
		table := fmt.Sprint(row[0])
		var cells bytes.Buffer
		for _, row := range Rows(t, db, `SELECT * FROM "`+table+`"`) { //nolint:unqueryvet // whatever there is
			for _, cell := range row {
				switch v := cell.(type) {
				case []byte:
					cells.Write(v)
				case string:
					cells.WriteString(v)
				default: // numbers, times: no secret is one
					continue
				}
				cells.WriteString("\n")
			}
		}
		all[table] = cells.Bytes()
	}
	if len(all) < 20 {
		t.Errorf("only %d tables", len(all))
	}
	return all
}

func Rows(t testing.TB, db *sqldb.DB, query string) (all [][]any) {
	t.Helper()
	list, err := db.Reader().QueryContext(context.WithoutCancel(t.Context()), query)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	columns, err := list.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for list.Next() {
		row, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			places[i] = &row[i]
		}
		if err := list.Scan(places...); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
