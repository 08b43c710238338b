package install_test

import (
	"crypto/tls"
	"encoding/base64"
	"net"
	"os"
	"os/user"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/material"
)

func TestCommandForms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.Env = append(r.engine.Env, "BASE=1")
	cfg := r.config(`{"id":"shell","type":"exec","cmd":"echo $BASE$MORE $0 > @/shell","env":{"MORE":"2"}},
		{"id":"argv","type":"exec","cmd":["/bin/sh","-c","echo \"$1\" > @/argv","x","a b; c"]},
		{"id":"old","type":"exec","cmd":"","cmd_argv":["touch","@/old"],"run_as":"","verify":{}},
		{"id":"absent","type":"exec","cmd":["/does/not/exist"],"continue_on_error":true}`, "")
	r.want(r.apply(cfg, supply(t)), "shell:ok argv:ok old:ok absent:failed")
	if got := r.read("shell"); got != "12 /bin/sh\n" {
		t.Errorf("shell wrote %q", got)
	}
	if got := r.read("argv"); got != "a b; c\n" {
		t.Errorf("argv wrote %q", got)
	}
	if _, err := os.Stat(r.path("old")); err != nil {
		t.Error(err)
	}
}

// The time limit ends the command and everything it started.
func TestCommandTimeLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(`{"id":"slow","type":"exec","cmd":"echo words; (sleep 600; echo late > @/late) & echo $! > @/pid; wait","timeout_ms":300}`, "")
	begin := time.Now()
	got := r.apply(cfg, supply(t))
	r.want(got, "slow:failed")
	if time.Since(begin) > 5*time.Minute || !strings.Contains(got["slow"].Error, "did not end within 300ms: words") {
		t.Errorf("after %v: %s", time.Since(begin), got["slow"].Error)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(r.read("pid")) + "/cmdline"); err == nil {
		if cmdline, _ := os.ReadFile("/proc/" + strings.TrimSpace(r.read("pid")) + "/cmdline"); len(cmdline) > 0 {
			t.Errorf("still runs: %q", cmdline)
		}
	}
}

func TestFailureQuotesTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(`{"id":"x","type":"exec","cmd":"yes | head -c 100000; echo the reason >&2; exit 4"}`, "")
	got := r.apply(cfg, supply(t))["x"].Error
	if !strings.HasPrefix(got, "exit status 4: ") || !strings.HasSuffix(got, "the reason") || len(got) > 1200 {
		t.Errorf("%q", got)
	}
}

func TestRunAs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	cfg := r.config(`{"id":"self","type":"exec","cmd":"id -un > @/self","run_as":"`+self.Username+`"},
		{"id":"nobody","type":"exec","cmd":"[ $(id -un) = nobody ]","run_as":"nobody"},
		{"id":"ghost","type":"exec","cmd":"true","run_as":"no-such-user-here"}`, "")
	got := r.apply(cfg, supply(t))
	r.want(got, "self:ok ghost:failed")
	if strings.TrimSpace(r.read("self")) != self.Username {
		t.Errorf("ran as %q", r.read("self"))
	}
	if os.Getuid() == 0 {
		r.want(got, "nobody:ok")
	} else if r.want(got, "nobody:failed"); !strings.Contains(got["nobody"].Error, "as root") {
		t.Errorf("%q", got["nobody"].Error)
	}
}

// service is a TLS service that loads a pair whenever it is told to.
type service struct {
	listener net.Listener
	pair     atomic.Pointer[tls.Certificate]
}

func newService(t *testing.T, rec material.Record) *service {
	t.Helper()
	s := &service{}
	s.load(t, rec)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	s.listener = l
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake(); _ = conn.Close() }()
		}
	}()
	return s
}

func (s *service) load(t *testing.T, rec material.Record) {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(rec.PrivateKeyDERB64)
	if err != nil {
		t.Fatal(err)
	}
	key, err := material.ParseKey(der)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := material.ParseCertificates(rec.Cert)
	if err != nil {
		t.Fatal(err)
	}
	s.pair.Store(&tls.Certificate{Certificate: [][]byte{certs[0].Raw}, PrivateKey: key})
}

// The handshake must show the new serial; a service that goes on with the old
// one is a failure, and the former files come back.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, item := range []string{"copy", "exec"} {
		r := newRig(t)
		first, second := record(t, 5, 1), record(t, 5, 2)
		s := newService(t, first)
		check := `"verify":{"tls":{"address":"` + s.listener.Addr().String() + `","server_name":"a.test"}}`
		items := strings.TrimSuffix(copyPair, "}") + "," + check + "}," + reload
		if item == "exec" {
			items = copyPair + "," + strings.TrimSuffix(reload, "}") + "," + check + "}"
		}
		cfg := r.config(items, "")
		r.want(r.apply(cfg, supply(t, first)), "pair:ok reload:ok")
		got := r.apply(cfg, supply(t, second))
		r.want(got, "pair:failed")
		if text := got["pair"].Error + got["reload"].Error; r.serial() != "1" || !strings.Contains(text, "shows serial 1, expected 2") {
			t.Errorf("%s: serial %s: %s", item, r.serial(), text)
		}
		// A service that needs a moment is waited for.
		tries := 0
		r.clock.OnSleep = func(time.Duration) {
			if tries++; tries == 3 {
				s.load(t, second)
			}
		}
		if err := r.clock.Sleep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		r.want(r.apply(cfg, supply(t, second)), "pair:ok reload:ok")
		if r.serial() != "2" || tries < 3 {
			t.Errorf("%s: serial %s after %d tries", item, r.serial(), tries)
		}
	}
}
