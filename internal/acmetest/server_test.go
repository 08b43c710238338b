package acmetest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
)

const childVariable = "ACMETEST_CHILD"

func TestExternalAccountBinding(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("Zm9v", 11)[:43]
	ca := acmetest.Start(t, acmetest.Options{EABKeys: map[string]string{"kid-1": key}})
	if _, err := obtain(t, ca, respond(t, ca), "a.example.test"); err == nil ||
		!strings.Contains(err.Error(), "externalAccountRequired") {
		t.Errorf("without a binding: %v, want externalAccountRequired", err)
	}
}

func TestStopRefusesConnections(t *testing.T) {
	t.Parallel()
	ca := acmetest.Start(t, acmetest.Options{})
	if !listening(ca.DirectoryURL) {
		t.Fatal("nobody listens after Start")
	}
	ca.Stop()
	if listening(ca.DirectoryURL) {
		t.Error("somebody listens after Stop")
	}
	ca.Stop()
}

// TestKilledParent starts this test binary again, lets it start a server, kills it and sees the
// server go.
func TestKilledParent(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		ca := acmetest.Start(t, acmetest.Options{})
		fmt.Printf("directory %s\n", ca.DirectoryURL)
		select {} // until killed
	}
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledParent$")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var directory string
	for lines := bufio.NewScanner(out); directory == "" && lines.Scan(); {
		directory, _ = strings.CutPrefix(lines.Text(), "directory ")
		if !strings.HasPrefix(directory, "https://") {
			directory = ""
		}
	}
	if !listening(directory) {
		t.Fatalf("child's server %q does not listen", directory)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for listening(directory) {
		select {
		case <-ctx.Done():
			t.Fatal("the server outlived its parent")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func listening(directory string) bool {
	u, err := url.Parse(directory)
	if err != nil || u.Host == "" {
		return false
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
