package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// password is searched for in everything that a server writes.
const password = "Canary-Password-7c1f"

// patience is how long a test waits for what should happen at once: the
// machine may be busy.
const patience = 2 * time.Minute

// server is `certharbor serve` as a process.
type server struct {
	t       *testing.T
	URL     string
	command *exec.Cmd
	log     *serverLog
	exited  chan struct{} // closed when the process is gone
	http    *http.Client
}

// setup says how a server is started. The zero value will do, but for data.
type setup struct {
	dir     string   // the working directory
	data    string   // the data folder
	args    []string // further flags of serve
	env     []string // further variables
	wrapper []string // a program with its arguments that starts the server
}

// launch starts a server without waiting for it.
func launch(t *testing.T, s setup) *server {
	t.Helper()
	args := append([]string{}, s.wrapper...)
	args = append(args, "certharbor", "serve", "--listen", "127.0.0.1:0", "--data", s.data, "--webhook-allow-cidrs", "127.0.0.0/8", "--acme-allow-cidrs", "127.0.0.0/8",
		"--quota", "attempts-per-hour=100000,certificates=100000,acme-accounts=100000")
	args = append(args, s.args...)
	srv := &server{t: t, log: newServerLog(), exited: make(chan struct{}), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	srv.command = exec.Command(args[0], args[1:]...)
	srv.command.Env = append(os.Environ(), s.env...)
	srv.command.Dir = s.dir
	srv.command.Stderr = srv.log
	srv.command.WaitDelay = time.Second
	// Neither an end of the test nor of this process leaves a server behind.
	srv.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := srv.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = srv.command.Wait()
		close(srv.exited)
	}()
	t.Cleanup(func() {
		srv.kill()
		srv.log.check(t)
	})
	return srv
}

// serve starts a server and returns when it answers.
func serve(t *testing.T, s setup) *server {
	t.Helper()
	srv := launch(t, s)
	srv.ready()
	return srv
}

// ready waits until the server listens.
func (s *server) ready() {
	s.t.Helper()
	if !s.await() {
		s.t.Fatalf("the server does not serve: %s\n%s", s.command.ProcessState, s.log)
	}
}

// await returns false when the server ended instead of listening.
func (s *server) await() bool {
	s.t.Helper()
	select {
	case address := <-s.log.serving:
		s.URL = "http://" + address
		return true
	case <-s.exited:
		return false
	case <-time.After(patience):
		s.t.Fatalf("the server neither serves nor ends:\n%s", s.log)
		return false
	}
}

// signal sends a signal to the server and whatever started it.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(-s.command.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Fatal(err)
	}
}

// kill ends the server as a power cut would, and waits for its end.
func (s *server) kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	<-s.exited
	s.http.CloseIdleConnections()
}

// wait waits for the end of the server and returns its exit code.
func (s *server) wait() int {
	s.t.Helper()
	select {
	case <-s.exited:
		return s.command.ProcessState.ExitCode()
	case <-time.After(patience):
		s.t.Fatalf("the server does not end:\n%s", s.log)
		return 0
	}
}

// stop ends the server in order.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		s.t.Fatalf("exit code %d after SIGTERM:\n%s", code, s.log)
	}
}

// serverLog keeps what a server writes and tells where it listens.
type serverLog struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	seen    int // bytes that were searched for lines
	serving chan string
}

func newServerLog() *serverLog { return &serverLog{serving: make(chan string, 1)} }

// Write implements io.Writer.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	for {
		line, _, whole := bytes.Cut(l.buf.Bytes()[l.seen:], []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.seen += len(line) + 1
		var entry struct{ Msg, Listen string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			l.serving <- entry.Listen
		}
	}
}

// String returns everything that was written.
func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// check looks for what no server may write.
func (l *serverLog) check(t *testing.T) {
	t.Helper()
	text := l.String()
	for _, bad := range []string{"WARNING: DATA RACE", "panic", "goroutine ", password, webhookSecret} {
		if strings.Contains(text, bad) {
			t.Errorf("the server wrote %q:\n%s", bad, text)
			return
		}
	}
	if t.Failed() {
		t.Logf("end of a server's log:\n%s", text[max(0, len(text)-4000):])
	}
}

// eventually calls check until it returns true, for at most patience.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		case <-tick.C:
		}
	}
}
