package app

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes, for a clock that is not the
// system's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { close(p.done); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// heard serves a connection as the program does and returns the paths that
// reached the handler and the statuses of the answers. talk writes to the
// connection; afterwards our side waits for the server to close its own.
func heard(t *testing.T, talk func(io.Writer)) (paths []string, statuses []int) {
	t.Helper()
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	var lines atomic.Pointer[[]string]
	lines.Store(&[]string{})
	server := httpServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := append(*lines.Load(), r.Method+" "+r.URL.Path)
		lines.Store(&all)
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "bad body", http.StatusBadRequest)
		}
	}), slog.New(slog.DiscardHandler), newConnections(10, 10))
	go func() { _ = server.Serve(listener) }()
	ours, theirs := net.Pipe()
	listener.conns <- theirs
	var talking sync.WaitGroup
	talking.Go(func() { talk(ours) })
	reader := bufio.NewReader(ours)
	for {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			break
		}
		statuses = append(statuses, response.StatusCode)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	_ = ours.Close()
	_ = server.Close()
	talking.Wait()
	synctest.Wait()
	return *lines.Load(), statuses
}

// What one side may take for the end of a request and the other not gets one
// answer or none, and never makes two requests of one (threats.md scenario 8).
func TestOneRequestOrNone(t *testing.T) {
	t.Parallel()
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	chunked := "0\r\n\r\n" + smuggled
	for name, request := range map[string]string{
		"content length and encoding":      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"encoding and content length":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n" + chunked,
		"an encoding twice":                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"identity and chunked":             "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"a list of encodings":              "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n" + chunked,
		"an unknown encoding":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunked,
		"an encoding after a tab":          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"an encoding after a vertical tab": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"a space before the colon":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"a folded encoding":                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"an encoding in HTTP/1.0":          "POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled,
		"two lengths":                      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n" + smuggled,
		"two lengths in one":               "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 44\r\n\r\n" + smuggled,
		"a signed length":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n" + smuggled,
		"a negative length":                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n" + smuggled,
		"a hexadecimal length":             "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x0\r\n\r\n" + smuggled,
		"an empty length":                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n" + smuggled,
		"a length with an underscore":      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n" + smuggled,
		"two hosts":                        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + smuggled,
		"no host":                          "GET / HTTP/1.1\r\n\r\n" + smuggled,
		"a host of two":                    "GET / HTTP/1.1\r\nHost: a b\r\n\r\n" + smuggled,
		"a carriage return in a header":    "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rX-B: c\r\n\r\n" + smuggled,
		"a NUL in a header":                "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n" + smuggled,
		"a folded header":                  "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\tc\r\nConnection: close\r\n\r\n" + smuggled,
		"a header without a name":          "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n" + smuggled,
		"a header without a colon":         "GET / HTTP/1.1\r\nHost: a\r\nX-A\r\n\r\n" + smuggled,
		"a first header that is folded":    "GET / HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n" + smuggled,
		"a bare line feed in a chunk":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n" + chunked,
		"a chunk with an extension":        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;\n" + smuggled + "\r\n\r\n",
		"a chunk that is too long":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + chunked,
		"a signed chunk":                   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+0\r\n\r\n" + smuggled,
		"a line in the target":             "GET /a\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
		"three words and more":             "GET / /smuggled HTTP/1.1\r\nHost: a\r\n\r\n" + smuggled,
		"no version":                       "GET /\r\nHost: a\r\n\r\n" + smuggled,
		"a preface of HTTP/2":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled,
		"a header of 64 KiB":               "GET / HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n" + smuggled,
		"ten thousand headers":             "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X-A: b\r\n", 10_000) + "\r\n" + smuggled,
		"a target of 64 KiB":               "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n" + smuggled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				paths, statuses := heard(t, func(w io.Writer) { _, _ = io.WriteString(w, request) })
				if len(paths) > 1 || len(statuses) > 1 || strings.Contains(fmt.Sprint(paths), "smuggled") {
					t.Errorf("requests %v, answers %v", paths, statuses)
				}
			})
		})
	}
}

// Line feeds alone end lines, but nothing else: what follows is what anybody
// would take for the next request.
func TestBareLineFeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		paths, statuses := heard(t, func(w io.Writer) {
			_, _ = io.WriteString(w, "POST /a HTTP/1.1\nHost: a\nContent-Length: 3\nConnection: close\n\nabcGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
		})
		if fmt.Sprint(paths) != "[POST /a]" || len(statuses) != 1 {
			t.Errorf("requests %v, answers %v", paths, statuses)
		}
	})
}

// Who sends slowly or never is left in bounded time.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	drip := func(text string, every time.Duration) func(io.Writer) {
		return func(w io.Writer) {
			for _, c := range text {
				if _, err := io.WriteString(w, string(c)); err != nil {
					return
				}
				time.Sleep(every) // on the test's own clock
			}
		}
	}
	head := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
	for name, test := range map[string]struct {
		talk  func(io.Writer)
		limit time.Duration
	}{
		"nothing":      {func(io.Writer) {}, 15 * time.Second},
		"slow headers": {drip(head, time.Second), 15 * time.Second},
		"slow body":    {func(w io.Writer) { _, _ = io.WriteString(w, head); drip(strings.Repeat("a", 1000), time.Second)(w) }, 65 * time.Second},
		"no body":      {func(w io.Writer) { _, _ = io.WriteString(w, head) }, 65 * time.Second},
		"slow chunks": {func(w io.Writer) {
			_, _ = io.WriteString(w, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
			drip(strings.Repeat("1\r\na\r\n", 300), time.Second)(w)
		}, 65 * time.Second},
		"no second one": {func(w io.Writer) { _, _ = io.WriteString(w, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }, 125 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				paths, statuses := heard(t, test.talk)
				if took := time.Since(begin); took > test.limit || len(paths) > 1 || len(statuses) > 1 {
					t.Errorf("left after %s with requests %v, answers %v", took, paths, statuses)
				}
			})
		})
	}
}
