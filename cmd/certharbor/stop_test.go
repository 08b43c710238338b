package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowPost begins a login whose body the server still waits for, and returns
// the function that sends the rest and reads the answer's status.
func (s *server) slowPost(email string) (finish func() (int, error)) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	body := fmt.Sprintf(`{"action":"login","email":%q,"password":%q}`, email, password)
	// The server says 100 when a handler begins to read: the request is under way.
	fmt.Fprintf(conn, "POST /auth/general HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		s.t.Fatal(line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		s.t.Fatal(err)
	}
	return func() (int, error) {
		if _, err := conn.Write([]byte(body)); err != nil {
			return 0, err
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
}

// poll begins a long poll of 30 s, sees to it that the server has it, and
// returns a channel with how it ended.
func (d *device) poll(t *testing.T) <-chan string {
	t.Helper()
	sent, ended := make(chan struct{}), make(chan string, 1)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	go func() {
		a, err := d.send(ctx, "GET", "/apiv1/devices/self/updates?wait=30", nil)
		ended <- fmt.Sprint(a.Status, " ", err)
	}()
	receive(t, sent)
	for range 20 { // more than enough for the server to begin with what it got before
		d.must("GET", "/health", nil, http.StatusOK, nil)
	}
	return ended
}

// A stop answers what is under way, a waiting poll at once, and takes nothing new.
func TestSIGTERMAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	newUser(t, "me@example.org", "--data", data)
	s := serve(t, setup{data: data})
	me := s.login("me@example.org")
	d, err := me.enrol(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	poll, finish := d.poll(t), s.slowPost("me@example.org")

	begun := time.Now()
	s.signal(syscall.SIGTERM)
	if got := receive(t, poll); got != "204 <nil>" {
		t.Errorf("the long poll ended with %s", got)
	}
	if took := time.Since(begun); took > 25*time.Second { // it would have ended by itself after 30
		t.Errorf("the long poll was held for %s", took)
	}
	eventually(t, "no new connections", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if status, err := finish(); err != nil || status != http.StatusOK {
		t.Errorf("the request under way: %d %v", status, err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begun); took > drain {
		t.Errorf("the stop took %s", took)
	}
	if strings.Contains(s.log.String(), `"level":"ERROR"`) {
		t.Errorf("errors in the log of an ordinary stop:\n%s", s.log)
	}
}

// drain is what a stop takes at the most while requests are under way, less a
// little: one that waited for its end is longer under way.
const drain = 28 * time.Second

// A second SIGTERM does not wait for a request that never ends.
func TestSecondSIGTERMStopsAtOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, setup{data: data})
	_ = s.slowPost("me@example.org") // and never finished
	s.signal(syscall.SIGTERM)
	eventually(t, "it is stopping", func() bool { return strings.Contains(s.log.String(), `"msg":"stopping"`) })
	select {
	case <-s.exited:
		t.Fatal("the server did not wait for the request under way")
	default:
	}
	begun := time.Now()
	s.signal(syscall.SIGTERM)
	s.wait()
	if took := time.Since(begun); took > drain {
		t.Errorf("the second SIGTERM took %s", took)
	}
	serve(t, setup{data: data}).stop()
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing within %s", patience)
		panic("unreachable")
	}
}
