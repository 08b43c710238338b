package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

// order is what a child process does; it kills itself when it reaches Point.
type order struct {
	State, Server, Point string
	Login                bool // instead of a round
}

const orderEnv = "AGENT_TEST_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	a, err := agent.Open(agent.Options{
		State: o.State, Clock: &wiretest.Clock{}, Out: io.Discard, Env: []string{"PATH=" + os.Getenv("PATH")},
		Crash: func(point string) {
			if point == o.Point {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the kill is on its way
			}
		},
	})
	if err != nil {
		return err
	}
	if o.Login {
		err = a.Login(context.Background(), o.Server, "")
	} else {
		err = a.Once(context.Background())
	}
	return errors.Join(err, a.Close())
}

// killAt lets a child work until it kills itself at a point.
func (r *rig) killAt(point string, login bool) {
	r.t.Helper()
	if err := r.agent.Close(); err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(order{State: r.path("state"), Server: r.server.URL, Point: point, Login: login})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	// The race detector sleeps a second at exit unless told not to.
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		r.t.Fatalf("%s was not reached: %v\n%s", point, err, out)
	}
	r.open()
}

// A kill at any point of a refresh, however often, does not cost the login.
func TestKillDuringRefresh(t *testing.T) {
	t.Parallel()
	for _, points := range [][]string{
		{"refresh-named"}, {"refresh-named-saved"}, {"refresh-answered"}, {"refresh-answered-saved"},
		{"refresh-answered", "refresh-answered", "refresh-answered"},
	} {
		t.Run(strings.Join(points, ","), func(t *testing.T) {
			t.Parallel()
			r := enrolled(t)
			serial := r.server.Issue(5, "a.test")
			r.configure(copyPair, reload)
			for range 2 { // the refresh after this one is as good
				r.server.Revoke()
				for _, point := range points {
					r.killAt(point, false)
				}
				r.mustOnce()
			}
			if r.serial() != serial || strings.Contains(r.read("state/session.json"), "request_id") {
				t.Errorf("serial %s; %s", r.serial(), r.read("state/session.json"))
			}
			if n := r.server.Count("/me/devices"); n != 1 {
				t.Errorf("%d registrations", n)
			}
		})
	}
}

// A kill at any point of a registration that a person has approved: the next
// login, or the next round, ends it without asking again.
func TestKillDuringRegistration(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"registration-noted", "registration-answered", "registration-saved"} {
		for name, goOn := range map[string]func(*rig) error{
			"login": func(r *rig) error { return r.agent.Login(r.t.Context(), r.server.URL+"/", "") },
			"once":  func(r *rig) error { return nil },
			"run": func(r *rig) error {
				polls := r.server.Count("/updates")
				r.server.Fail("/device/registration", 20, wiretest.Hangup) // patience
				defer r.running()()
				r.server.Await(r.t, "/updates", polls+1)
				return nil
			},
		} {
			t.Run(point+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.killAt(point, true)
				if err := goOn(r); err != nil {
					t.Fatal(err)
				}
				r.mustOnce()
				if n := r.server.Count("/auth/device"); n != 2 {
					t.Errorf("%d requests of device logins, want start and poll", n)
				}
				if text := r.read("state/registration.json"); text != "" || r.status().DeviceID != 1 {
					t.Errorf("left behind: %s; status %+v", text, r.status())
				}
			})
		}
	}
}

// A registration under way that the server does not take any more, or that was
// begun elsewhere, stands in nobody's way.
func TestRegistrationThatCameTooLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refuse := func() { r.server.Fail("/device/registration", 1, wiretest.Status(400, 5000, 0, "")) }
	r.killAt("registration-noted", true)
	refuse()
	if err := r.once(); !errors.Is(err, agent.ErrNotLoggedIn) {
		t.Fatalf("once: %v", err)
	}
	r.killAt("registration-noted", true)
	refuse()
	if err := r.agent.Login(t.Context(), r.server.URL, ""); err != nil {
		t.Fatal(err)
	}
	r.killAt("registration-noted", true)
	refuse()
	r.mustOnce() // with the login from before
	r.killAt("registration-noted", true)
	if err := r.agent.Enroll(t.Context(), r.server.URL, "", wiretest.APIKey); err != nil {
		t.Fatal(err)
	}
	other := wiretest.New(t)
	other.AutoApprove = true
	r.killAt("registration-noted", true)
	if err := r.agent.Login(t.Context(), other.URL, ""); err != nil || r.status().Server != other.URL || other.Count("/auth/device") != 2 {
		t.Fatalf("%v; at %s", err, r.status().Server)
	}
	if err := os.WriteFile(r.path("state/registration.json"), []byte("\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.mustOnce()
}
