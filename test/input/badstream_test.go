package input_test

import (
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Bodies that end early, lie about their length or their type. They need a
// connection of their own: net/http's client would not send them.
func TestBadStreams(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	for _, o := range w.Operations {
		if o.Body == nil {
			continue
		}
		good := apptest.Encoded(o.Good(w.Alice))
		who := w.As(o, w.Alice)
		path := w.Fill(o, w.Alice.Ids)
		for name, s := range map[string]struct {
			headers, body string
			want          int
		}{
			"ends early":             {fmt.Sprintf("Content-Length: %d\r\n", len(good)+10), good, 400},
			"ends before it begins":  {"Content-Length: 10\r\n", "", 400},
			"chunk ends early":       {"Transfer-Encoding: chunked\r\n", "ffff\r\n" + good, 400},
			"chunk without a length": {"Transfer-Encoding: chunked\r\n", "zz\r\n" + good + "\r\n0\r\n\r\n", 400},
			"announces 2 MiB":        {"Content-Length: 2097152\r\n", strings.Repeat(" ", 2<<20), 413},
			"a form":                 {"Content-Type: application/x-www-form-urlencoded\r\n", good, 400},
			"multipart":              {"Content-Type: multipart/form-data; boundary=x\r\n", good, 400},
			"text":                   {"Content-Type: text/plain\r\n", good, 400},
			"another character set":  {"Content-Type: application/json; charset=utf-16\r\n", "\xff\xfe{\x00}\x00", 400},
			"compressed":             {"Content-Type: application/json\r\nContent-Encoding: gzip\r\n", "\x1f\x8b\x08\x00\x00", 400},
		} {
			if !strings.Contains(s.headers, "Content-Length") && !strings.Contains(s.headers, "Transfer-Encoding") {
				s.headers += fmt.Sprintf("Content-Length: %d\r\n", len(s.body))
			}
			a := w.Stream(t, who, o.Method+" "+path, s.headers, s.body, strings.Contains(name, "ends"))
			what := o.Line() + ": " + name
			p := a.Check(t, what, o)
			if w.Admitted(o) && (a.Status != s.want || !p.Names("body", "Content-Type")) {
				t.Errorf("%s: %d %.200s, want %d", what, a.Status, a.Body, s.want)
			}
		}
	}
	w.WellAfter(t)
}
