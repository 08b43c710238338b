package app_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
)

// servedVariable holds the settings, as JSON, of a test binary that is to be
// the server.
const servedVariable = "SERVED_TEST_SETTINGS"

// TestServedProcess is no test: it is the server of a process of its own, where
// the debug settings of the runtime can be what they are read as at the start.
func TestServedProcess(t *testing.T) {
	text := os.Getenv(servedVariable)
	if text == "" {
		return
	}
	var c app.Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if err := app.Serve(t.Context(), c, "test", os.Environ(), os.Stdout, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

// served is a server as a process.
type served struct {
	t       *testing.T
	url     string // of its TLS listener
	client  *http.Client
	output  *logBuffer // standard output and error
	command *exec.Cmd
}

// serveProcess starts the server with TLS and HTTP/2 on a free port.
func serveProcess(t *testing.T, c app.Config, environ ...string) *served {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.TLSListen = "127.0.0.1:0", free.Addr().String()
	_ = free.Close()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, url: "https://" + c.TLSListen, output: &logBuffer{}}
	s.command = exec.Command(binary, "-test.run=^TestServedProcess$")
	s.command.Env = append(append(os.Environ(), servedVariable+"="+encoded(c)), environ...)
	s.command.Stdout, s.command.Stderr = s.output, s.output
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	eventually(t, 30*time.Second, "the process serves", func() bool { return strings.Contains(s.output.String(), `"serving"`) })
	own, err := os.ReadFile(filepath.Join(c.Data, "tls.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(own)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport}
	return s
}

// stop ends the process in order.
func (s *served) stop() {
	if s.command.ProcessState != nil {
		return
	}
	s.client.CloseIdleConnections()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	if err := s.command.Wait(); err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
}
