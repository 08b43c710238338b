package apptest

import (
	"crypto/tls"
	"crypto/x509"
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

// ServedVariable holds the settings, as JSON, of a test binary that is to be
// the server.
const ServedVariable = "SERVED_TEST_SETTINGS"

// Served is a server as a process.
type Served struct {
	t       *testing.T
	URL     string // of its TLS listener
	Client  *http.Client
	Output  *logBuffer // standard output and error
	command *exec.Cmd
}

// ServeProcess starts the server with TLS and HTTP/2 on a free port.
func ServeProcess(t *testing.T, c app.Config, environ ...string) *Served {
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
	s := &Served{t: t, URL: "https://" + c.TLSListen, Output: &logBuffer{}}
	s.command = exec.Command(binary, "-test.run=^TestServedProcess$")
	s.command.Env = append(append(os.Environ(), ServedVariable+"="+Encoded(c)), environ...)
	s.command.Stdout, s.command.Stderr = s.Output, s.Output
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	Eventually(t, 2*time.Minute, "the process serves", func() bool { return strings.Contains(s.Output.String(), `"serving"`) })
	own, err := os.ReadFile(filepath.Join(c.Data, "tls.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(own)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	s.Client = &http.Client{Transport: transport}
	return s
}

// Stop ends the process in order.
func (s *Served) Stop() {
	if s.command.ProcessState != nil {
		return
	}
	if s.Client != nil { // nil when it never served
		s.Client.CloseIdleConnections()
	}
	_ = s.command.Process.Signal(syscall.SIGTERM)
	if err := s.command.Wait(); err != nil {
		s.t.Errorf("the server ended with %v", err)
	}
}
