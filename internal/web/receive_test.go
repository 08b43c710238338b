package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// bodyMux has a route of each size. The cookie names the user.
func bodyMux() *web.Mux {
	m := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
		Session: func(r *http.Request) (*access.Caller, error) {
			var user int64
			if _, err := fmt.Sscanf(r.Header.Get("Cookie"), "s=%d", &user); err != nil {
				return nil, fault.Unauthorized("Sign in.")
			}
			return &access.Caller{Kind: access.KindSession, UserID: user}, nil
		},
	}})
	mount := func(line string, rule access.Rule, options ...web.Option) {
		web.Route(m, line, rule, func(_ context.Context, in *lenientInput) (int, error) { return len(in.Body.Name), nil }, options...)
	}
	mount("POST /public", access.Public())
	mount("POST /recognised", access.Optional())
	mount("POST /default", access.Session())
	mount("POST /large", access.Session(), web.Large)
	for path, size := range map[string]int64{"/raw": web.DefaultBody, "/rawlarge": web.LargeBody, "/rawpublic": web.PublicBody} {
		rule := access.Session()
		if size == web.PublicBody {
			rule = access.Public()
		}
		web.Raw(m, "POST "+path, rule, size, func(w http.ResponseWriter, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			_, _ = fmt.Fprint(w, len(body))
			return err
		})
	}
	return m
}

// sized is a JSON body of exactly n bytes.
func sized(n int) string { return `{"name":"` + strings.Repeat("a", n-len(`{"name":""}`)) + `"}` }

// Each route takes bodies up to its size, and one byte more is 413, whether it
// was announced or not.
func TestBodySizes(t *testing.T) {
	t.Parallel()
	m := bodyMux()
	for path, size := range map[string]int{
		"/public": 16 << 10, "/recognised": 16 << 10, "/default": 64 << 10, "/large": 1 << 20, "/raw": 64 << 10,
	} {
		for _, announced := range []bool{true, false} {
			for n, status := range map[int]int{size: 200, size + 1: 413} {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(sized(n)))
				r.Header.Set("Cookie", "s=7")
				if !announced {
					r.ContentLength = -1
				}
				w := httptest.NewRecorder()
				m.ServeHTTP(w, r)
				if w.Code != status || status == 413 && !strings.Contains(w.Body.String(), `"code":5000,"what":"body: is larger than`) {
					t.Errorf("%s with %d bytes, announced %v: %d %.200s, want %d", path, n, announced, w.Code, w.Body, status)
				}
			}
		}
	}
	for _, route := range m.Routes() {
		if route.Body == 0 {
			t.Errorf("%s %s reads no body", route.Method, route.Path)
		}
	}
}

// unwanted fails the test when it is read.
type unwanted struct{ t *testing.T }

func (u unwanted) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// A body is read only after its credential was accepted.
func TestBodyComesAfterTheCredential(t *testing.T) {
	t.Parallel()
	m := bodyMux()
	for path, cookie := range map[string]string{"/default": "", "/large": "x=1", "/raw": ""} {
		r := httptest.NewRequest(http.MethodPost, path, unwanted{t})
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/large", unwanted{t})
	r.Header.Set("Cookie", "s=7")
	r.ContentLength = 1<<20 + 1
	w := httptest.NewRecorder()
	if m.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("announced too large: %d", w.Code)
	}
}

// crowd sends bodies whose last byte does not come until it is let go.
type crowd struct {
	m     *web.Mux
	group sync.WaitGroup
	open  chan struct{}

	mu      sync.Mutex
	gaveWay map[string]int64 // by address and kind of credential
}

// send starts a request of n bytes and returns once all but the last are taken.
// It tells whether the server goes on with it, or how it was answered.
func (c *crowd) send(path, address, cookie string, n int) (status int) {
	taken := make(chan struct{})
	body := sized(n)
	reader := io.MultiReader(strings.NewReader(body[:n-1]), &gate{taken: taken, open: c.open}, strings.NewReader(body[n-1:]))
	r := httptest.NewRequest(http.MethodPost, path, reader)
	r.ContentLength = -1
	r.RemoteAddr = address
	r.Header.Set("Cookie", cookie)
	w := httptest.NewRecorder()
	done := make(chan struct{})
	c.group.Go(func() {
		c.m.ServeHTTP(w, r)
		if w.Code == http.StatusServiceUnavailable {
			c.note(address, cookie)
		}
		close(done)
	})
	select {
	case <-taken:
		return 0
	case <-done:
		return w.Code
	}
}

func (c *crowd) note(address, cookie string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gaveWay == nil {
		c.gaveWay = map[string]int64{}
	}
	if at := strings.Index(address, "::"); at >= 0 {
		address = address[:at+2] + "]"
	}
	c.gaveWay[address+" "+cookie[:min(2, len(cookie))]]++
}

type gate struct {
	taken chan struct{}
	open  chan struct{}
}

func (g *gate) Read([]byte) (int, error) {
	close(g.taken)
	<-g.open
	return 0, io.EOF
}

// What all bodies hold together is bounded, whatever they announce: for one
// address, for one user, for strangers, and for all. A stranger takes no place
// of a user's. Where there is no room, what those hold who hold most gives way.
func TestBodiesInFlight(t *testing.T) {
	t.Parallel()
	c := crowd{m: bodyMux(), open: make(chan struct{})}
	admitted := func(path string, address func(int) string, cookie func(int) string, n, most, status int) {
		t.Helper()
		for i := range most {
			if got := c.send(path, address(i), cookie(i), n); got != 0 {
				t.Fatalf("%s, the %dth: %d", path, i, got)
			}
		}
		if got := c.send(path, address(most), cookie(most), n); got != status {
			t.Errorf("%s, one more than %d: %d", path, most, got)
		}
	}
	same := func(int) string { return "192.0.2.1:1" }
	prefix := func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i) }
	many := func(i int) string { return fmt.Sprintf("198.51.%d.%d:1", i/250, i%250) }
	nobody, user := func(int) string { return "" }, func(i int) string { return fmt.Sprintf("s=%d", 7+i/8) }
	admitted("/rawpublic", same, nobody, 16<<10, 64, 429)
	admitted("/rawpublic", prefix, nobody, 16<<10, 64, 429)
	admitted("/rawpublic", many, nobody, 16<<10, 1024-2*64, 0) // the last in place of another
	for i := range 29 {
		if got := c.send("/rawpublic", many(2000+i), "", 16<<10); got != 0 {
			t.Errorf("another stranger: %d", got)
		}
	}
	admitted("/rawlarge", same, func(int) string { return "s=6" }, 1<<20, 8, 429)
	admitted("/rawlarge", same, user, 1<<20, 40, 0)
	close(c.open)
	c.group.Wait()
	want := map[string]int64{"192.0.2.1:1 ": 15, "[2001:db8::] ": 15, "192.0.2.1:1 s=": 1}
	if got := c.gaveWay; got["192.0.2.1:1 "]+got["[2001:db8::] "] != 30 || got["192.0.2.1:1 "] < 14 || got["192.0.2.1:1 "] > 16 || got["192.0.2.1:1 s="] != 1 || len(got) != len(want) {
		t.Errorf("%v gave way, want %v", got, want)
	}
	c.open = make(chan struct{})
	admitted("/rawpublic", same, nobody, 16<<10, 64, 429)
	close(c.open)
	c.group.Wait()
}

// A few who hold all the room, and send no more, keep out no one who holds less,
// and learn at once that they gave way.
func TestBodiesOfAFewGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes, 2000)
		server := &http.Server{Handler: bodyMux(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
		go func() { _ = server.Serve(listener) }()
		connect := func(address, head string, body string) (net.Conn, *bufio.Reader) {
			ours, theirs := net.Pipe()
			listener <- remote{theirs, address}
			_, _ = io.WriteString(ours, head+"Host: x\r\n\r\n"+body)
			return ours, bufio.NewReader(ours)
		}
		var all []net.Conn
		var first *bufio.Reader
		for i := range 1024 {
			conn, answer := connect(fmt.Sprintf("192.0.2.%d:1", i/64), "POST /public HTTP/1.1\r\nContent-Length: 16000\r\n", strings.Repeat(" ", 9000))
			if all = append(all, conn); i == 0 {
				first = answer
			}
		}
		synctest.Wait()
		begin := time.Now()
		conn, answer := connect("198.51.100.1:1", "POST /public HTTP/1.1\r\nContent-Length: 14\r\n", `{"name":"abc"}`)
		if line, err := answer.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Errorf("who holds nothing: %q %v", line, err)
		}
		synctest.Wait()
		gone := 0
		for i, conn := range all {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			reader := bufio.NewReader(conn)
			if i == 0 {
				reader = first
			}
			if line, err := reader.ReadString('\n'); err == nil && strings.HasPrefix(line, "HTTP/1.1 503") {
				gone++
			}
		}
		if gone != 1 || time.Since(begin) > 5*time.Second {
			t.Errorf("%d gave way after %s, want 1 at once", gone, time.Since(begin))
		}
		for _, conn := range append(all, conn) {
			_ = conn.Close()
		}
		close(listener)
		_ = server.Close()
		time.Sleep(2 * time.Second) // net/http waits a moment before it closes
	})
}

// remote is a connection with an address.
type remote struct {
	net.Conn

	address string
}

func (r remote) RemoteAddr() net.Addr { return addressText(r.address) }

type addressText string

func (addressText) Network() string  { return "tcp" }
func (a addressText) String() string { return string(a) }

// pipes is a listener whose connections are in memory, for the synthetic clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A body has ten seconds, and a second more for each 16 KiB that came: who sends
// a byte now and then is answered 408. One that is refused anyway holds nobody
// up for longer than five seconds.
func TestBodiesThatAreSlow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		head          string
		chunk         int // bytes each second
		status        string
		seconds, slop int
	}{
		"a byte a second":       {"POST /public HTTP/1.1\r\nContent-Length: 16000\r\n", 1, "408", 10, 1},
		"a large one, too slow": {"POST /large HTTP/1.1\r\nCookie: s=7\r\nContent-Length: 1000000\r\n", 8 << 10, "408", 19, 2},
		"a large one":           {"POST /large HTTP/1.1\r\nCookie: s=7\r\nContent-Length: 1000000\r\n", 20 << 10, "400", 48, 2},
		"without a credential":  {"POST /large HTTP/1.1\r\nContent-Length: 1000000\r\n", 1, "401", 0, 1},
		"small, and refused":    {"POST /default HTTP/1.1\r\nContent-Length: 60000\r\n", 1, "401", 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				listener := make(pipes, 1)
				server := &http.Server{Handler: bodyMux(), ReadTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
				go func() { _ = server.Serve(listener) }()
				listener <- theirs
				begin := time.Now()
				var group sync.WaitGroup
				defer group.Wait()
				group.Go(func() {
					_, _ = io.WriteString(ours, test.head+"Host: x\r\n\r\n")
					for chunk := []byte(strings.Repeat("a", test.chunk)); ; time.Sleep(time.Second) {
						if _, err := ours.Write(chunk); err != nil {
							return
						}
					}
				})
				answer := make([]byte, 100)
				_, err := io.ReadFull(ours, answer)
				took := time.Since(begin)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+test.status) {
					t.Errorf("%q %v, want %s", answer, err, test.status)
				}
				if want := time.Duration(test.seconds) * time.Second; took < want || took > want+time.Duration(test.slop)*time.Second {
					t.Errorf("answered after %s, want %s", took, want)
				}
				_ = ours.Close()
				close(listener)
				_ = server.Close()
				time.Sleep(2 * time.Second) // net/http waits a moment before it closes
			})
		})
	}
}

// Large bodies are decoded by turns.
func TestDecodingTakesTurns(t *testing.T) {
	t.Parallel()
	m := bodyMux()
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/large", strings.NewReader(sized(1<<18)))
			r.Header.Set("Cookie", "s=7")
			w := httptest.NewRecorder()
			if m.ServeHTTP(w, r); w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	group.Wait()
}
