package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// device is a folder with an agent program in it.
type device struct {
	t      *testing.T
	dir    string
	server *wiretest.Server
}

func newDevice(t *testing.T) *device {
	t.Helper()
	d := &device{t: t, dir: t.TempDir(), server: wiretest.New(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// testscript.Main runs the command this program is called as.
	if err := os.Symlink(self, d.path("certharbor-agent")); err != nil {
		t.Fatal(err)
	}
	cmd := d.command("enroll", "--server", d.server.URL, "--api-key-stdin")
	cmd.Stdin = strings.NewReader(wiretest.APIKey)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("enroll: %v\n%s", err, out)
	}
	return d
}

func (d *device) path(name string) string { return filepath.Join(d.dir, name) }

func (d *device) command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.path("certharbor-agent"), args...)
	cmd.Env = append(os.Environ(), "CERTHARBOR_AGENT_STATE="+d.path("state"), "GORACE=atexit_sleep_ms=0")
	return cmd
}

func (d *device) read(name string) []byte {
	d.t.Helper()
	data, err := os.ReadFile(d.path(name))
	if err != nil {
		d.t.Fatal(err)
	}
	return data
}

// The whole agent is killed at random moments while certificates are renewed.
// Whatever was under way, a last round ends with the newest matching pair and
// a service that was reloaded with it.
func TestAgentSurvivesKills(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.configure()
	serial := ""
	for range 20 {
		serial = d.server.Issue(5, "a.test")
		cmd := d.command("run")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(rand.N(400*time.Millisecond), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the agent ended by itself: %v", err)
		}
	}
	d.must("once")
	d.newest(serial)
}

// The agent is killed when the server has rotated its refresh token and before
// the answer is there. It goes on without a new login, however often.
func TestAgentSurvivesKillsWhileItRefreshes(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.configure()
	serial := d.server.Issue(5, "a.test")
	for range 5 {
		d.server.Revoke()
		cmd := d.command("run")
		started := make(chan struct{})
		d.server.LoseAnswerAfter("/auth/refresh", func() {
			<-started
			_ = cmd.Process.Kill()
		})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err := cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the agent ended by itself: %v", err)
		}
	}
	d.must("once")
	d.newest(serial)
	if n := d.server.Count("/me/devices"); n != 1 {
		t.Errorf("%d registrations", n)
	}
}
