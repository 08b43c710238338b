package acmetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Server is a running ACME server. Its methods are safe for concurrent use.
type Server struct {
	// DirectoryURL is the ACME directory, https on 127.0.0.1.
	DirectoryURL string
	// ManagementURL is Pebble's management interface (roots, certificate status, …).
	ManagementURL string
	// CABundlePEM holds the root that the TLS certificate of both URLs chains to.
	CABundlePEM string
	// DNSAddress is host:port (TCP and UDP) of the DNS helper that validation asks.
	DNSAddress string
	// HTTPPort is where HTTP-01 validation connects to.
	HTTPPort int
	// HTTPListener is open on HTTPPort when Options.HTTPPort was 0, else nil. The test serves the
	// challenge responses on it.
	HTTPListener net.Listener

	issuerRootPEM string

	mu      sync.Mutex // one command at a time
	stdin   io.WriteCloser
	answers *bufio.Scanner
	command *exec.Cmd
	log     *tail
	stopped bool
}

// Start starts an ACME server that ends with the test. When the test fails, the last part of
// Pebble's log is added to the test's.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := start(&opts)
	if err != nil {
		t.Fatalf("start ACME server: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		if s.HTTPListener != nil {
			_ = s.HTTPListener.Close()
		}
		if t.Failed() {
			t.Logf("end of the ACME server's log:\n%s", s.log)
		}
	})
	return s
}

func start(opts *Options) (*Server, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	s := &Server{log: &tail{}}
	if opts.HTTPPort == 0 {
		if s.HTTPListener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for HTTP-01: %w", err)
		}
		address, err := netip.ParseAddrPort(s.HTTPListener.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("address of the HTTP-01 listener: %w", err)
		}
		opts.HTTPPort = int(address.Port())
	}
	if opts.TLSPort == 0 {
		opts.TLSPort = 1 // tcpmux, which nobody runs: validation fails at once
	}
	s.HTTPPort = opts.HTTPPort

	s.command = exec.Command(path)
	s.command.Env = append(os.Environ(), opts.environment()...)
	s.command.Stderr = s.log
	// Wait must not hang on the pipes should the process leave one open.
	s.command.WaitDelay = time.Second
	if s.stdin, err = s.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("stdout: %w", err)
	}
	s.answers = bufio.NewScanner(stdout)
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	var ready struct {
		DirectoryURL  string `json:"directory_url"`
		ManagementURL string `json:"management_url"`
		CABundlePEM   string `json:"ca_bundle_pem"`
		IssuerRootPEM string `json:"issuer_root_pem"`
		DNSAddress    string `json:"dns_address"`
	}
	if err := s.exchange(opts.wire(), &ready); err != nil {
		s.Stop()
		return nil, fmt.Errorf("%w\n%s", err, s.log)
	}
	s.DirectoryURL, s.ManagementURL = ready.DirectoryURL, ready.ManagementURL
	s.CABundlePEM, s.issuerRootPEM, s.DNSAddress = ready.CABundlePEM, ready.IssuerRootPEM, ready.DNSAddress
	return s, nil
}

// IssuerRootPEM returns the root that issued certificates chain to.
func (s *Server) IssuerRootPEM(t testing.TB) string {
	t.Helper()
	if s.issuerRootPEM == "" {
		t.Fatal("ACME server has not said its root")
	}
	return s.issuerRootPEM
}

// Stop ends the server at once, as a CA that went away: connections are refused from then on.
// Calling it again does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	_ = s.stdin.Close()
	if s.command.Process == nil {
		return
	}
	force := time.AfterFunc(3*time.Second, func() { _ = s.command.Process.Kill() })
	defer force.Stop()
	_ = s.command.Wait()
}

// exchange sends one line and reads its answer into out.
func (s *Server) exchange(in, out any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("ACME server was stopped")
	}
	if err := json.NewEncoder(s.stdin).Encode(in); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if !s.answers.Scan() {
		return fmt.Errorf("no answer: %w", errors.Join(s.answers.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(s.answers.Bytes(), out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}
