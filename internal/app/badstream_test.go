package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// Bodies that end early, lie about their length or their type. They need a
// connection of their own: net/http's client would not send them.
func TestBadStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	for _, o := range w.operations {
		if o.body == nil {
			continue
		}
		good := encoded(o.good(w.alice))
		who := w.as(o, w.alice)
		path := w.fill(o, w.alice.ids)
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
			a := w.stream(t, who, o.method+" "+path, s.headers, s.body, strings.Contains(name, "ends"))
			what := o.line() + ": " + name
			p := a.check(t, what, o)
			if w.admitted(o) && (a.status != s.want || !p.names("body", "Content-Type")) {
				t.Errorf("%s: %d %.200s, want %d", what, a.status, a.body, s.want)
			}
		}
	}
	w.wellAfter(t)
}

// stream sends a request as it is. leave closes our side of the connection
// afterwards, which the server takes for a caller who went away.
func (w *world) stream(t *testing.T, who *caller, line, headers, body string, leave bool) *answer {
	t.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var own strings.Builder
	if err := who.header.Write(&own); err != nil {
		t.Fatal(err)
	}
	go func() { // the server may answer before it has read everything
		_, _ = io.WriteString(conn, line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+own.String()+headers+"\r\n"+body)
		if leave {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", line, headers, err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &answer{response.StatusCode, response.Header, received}
}
