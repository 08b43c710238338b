package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/install"
	"certharbor.dev/certharbor/internal/agent/material"
	"certharbor.dev/certharbor/internal/agent/statedir"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// order is what a child process does: it recovers, then applies, and kills
// itself when it reaches point for the nth time.
type order struct {
	State  string
	Config install.Config
	Record *material.Record // nil: recover only
	Point  string
	N      int
}

const orderEnv = "INSTALL_TEST_ORDER"

func TestMain(m *testing.M) {
	if path := os.Getenv(orderEnv); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	state, err := statedir.Open(o.State)
	if err != nil {
		return err
	}
	e := &install.Engine{State: state, Clock: &wiretest.Clock{}, Log: slog.New(slog.DiscardHandler), Env: []string{"PATH=" + os.Getenv("PATH")}}
	e.Crash = func(point string) {
		if point == o.Point {
			if o.N--; o.N == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the kill is on its way
			}
		}
	}
	if err := e.Recover(context.Background()); err != nil || o.Record == nil {
		return err
	}
	object, err := material.Certificate(material.DeviceKey{}, *o.Record, "")
	if err != nil {
		return err
	}
	in := install.Supply{Objects: map[install.Ref]*material.Object{{Kind: "cert", ID: 5}: object}}
	_, err = e.Apply(context.Background(), o.Config, in, install.Options{IgnoreBackoff: true})
	return err
}

// start runs a child and gives the process, not waited for.
func (r *rig) start(o order) *exec.Cmd {
	r.t.Helper()
	o.State = r.path("state")
	text, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write("order.json", string(text))
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	// The race detector sleeps a second at exit unless told not to.
	cmd.Env = append(os.Environ(), orderEnv+"="+r.path("order.json"), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return cmd
}

// killed waits for a child and says whether SIGKILL ended it; any other
// failure fails the test.
func (r *rig) killed(cmd *exec.Cmd) bool {
	r.t.Helper()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		r.t.Fatalf("child: %v", err)
	}
	return false
}

// digest gives what the reload command would log now.
func (r *rig) digest() string {
	r.t.Helper()
	out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("cat %s/key.pem %s/cert.pem | sha256sum", r.dir, r.dir)).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Fields(string(out))[0]
}

// settled checks the promise: key and certificate match, the service was
// reloaded after the last change, nothing is left behind.
func (r *rig) settled() {
	r.t.Helper()
	r.serial()
	if log := r.reloads(); len(log) == 0 || log[len(log)-1] != r.digest() {
		r.t.Errorf("the service last saw %v, installed is %s", log, r.digest())
	}
	r.clean()
}

// whole checks that each file is one of the versions, not a torn one.
func (r *rig) whole(name string, versions ...string) {
	r.t.Helper()
	got := r.read(name)
	if !slices.Contains(versions, got) {
		r.t.Errorf("%s is neither old nor new: %q", name, got)
	}
}

func TestKillAtEveryPoint(t *testing.T) {
	t.Parallel()
	good := []string{
		"staging:1", "staged-file:1", "staged-file:2", "staged:1", "committing:1", "renamed-file:1", "renamed-file:2",
		"before-command:1", "after-command:1", "finishing:1", "kept-previous:1", "kept-previous:2", "recorded:1", "script-done:1",
	}
	bad := []string{"renamed-file:1", "after-command:1", "restoring:1", "put-back-file:1", "put-back-file:2", "before-command-again:1", "restored:1"}
	for _, p := range good {
		t.Run("new files/"+p, func(t *testing.T) { t.Parallel(); killAt(t, p, true) })
	}
	for _, p := range bad {
		t.Run("refused files/"+p, func(t *testing.T) { t.Parallel(); killAt(t, p, false) })
	}
}

func killAt(t *testing.T, where string, accepted bool) {
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "echo x >> @/script.log")
	first, second := record(t, 5, 1), record(t, 5, 2)
	r.killed(r.start(order{Config: cfg, Record: &first}))
	r.settled()
	oldKey, oldCert := r.read("key.pem"), r.read("cert.pem")
	newFiles := supply(t, second).Objects[install.Ref{Kind: "cert", ID: 5}].Files
	if !accepted {
		r.write("allowed", r.digest())
	}

	point, n := "", 0
	if _, err := fmt.Sscanf(strings.Replace(where, ":", " ", 1), "%s %d", &point, &n); err != nil {
		t.Fatal(err)
	}
	if !r.killed(r.start(order{Config: cfg, Record: &second, Point: point, N: n})) {
		t.Fatalf("%s was not reached", where)
	}
	r.whole("key.pem", oldKey, string(newFiles["private.key"].Data))
	r.whole("cert.pem", oldCert, string(newFiles["fullchain.pem"].Data))

	// The next start alone, without any server, ends with a matching pair.
	r.killed(r.start(order{}))
	r.settled()
	// The next round ends with what is asked for, if the service takes it.
	r.killed(r.start(order{Config: cfg, Record: &second}))
	r.settled()
	want, scripts := "2", 2
	if !accepted {
		want, scripts = "1", 1
	}
	if got := r.serial(); got != want {
		t.Errorf("serial %s is installed, want %s", got, want)
	}
	if n := strings.Count(r.read("script.log"), "x"); n < scripts {
		t.Errorf("script ran %d times, want at least %d", n, scripts)
	}
	if accepted && r.read("key.pem.previous") != oldKey {
		t.Error("the previous key was not kept")
	}
}

func TestKillAtRandomMoments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config(copyPair+","+reload, "")
	first := record(t, 5, 1)
	begin := time.Now()
	r.killed(r.start(order{Config: cfg, Record: &first}))
	span := time.Since(begin)
	kills := 0
	for serial := int64(2); serial < 32; serial++ {
		rec := record(t, 5, serial)
		if serial%3 == 0 {
			r.write("allowed", r.digest()) // this one will be refused
		} else if err := os.RemoveAll(r.path("allowed")); err != nil {
			t.Fatal(err)
		}
		cmd := r.start(order{Config: cfg, Record: &rec})
		timer := time.AfterFunc(rand.N(span), func() { _ = cmd.Process.Kill() })
		if r.killed(cmd) {
			kills++
		}
		timer.Stop()
		r.killed(r.start(order{}))
		r.settled()
	}
	if kills == 0 {
		t.Error("no kill hit")
	}
	t.Logf("%d of 30 were killed", kills)
}

// A command that kills the agent must not do so for ever.
func TestCommandThatKillsTheAgentIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := record(t, 5, 1), record(t, 5, 2)
	r.killed(r.start(order{Config: r.config(copyPair+","+reload, ""), Record: &first}))
	cfg := r.config(copyPair+`,{"id":"reload","type":"exec","cmd":"echo k >> @/kills; [ $(wc -l < @/kills) -gt 9 ] || kill -9 $PPID","depends_on":["pair"]}`, "")
	if !r.killed(r.start(order{Config: cfg, Record: &second})) {
		t.Fatal("not killed")
	}
	for range 9 {
		if !r.killed(r.start(order{})) {
			break
		}
	}
	if got := r.serial(); got != "1" {
		t.Errorf("serial %s is installed", got)
	}
	r.clean()
}
