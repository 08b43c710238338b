package life_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/wiretest"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// host is a machine with our own agent, which the person approves.
type host struct {
	t     *testing.T
	state string
	out   bytes.Buffer
	clock *wiretest.Clock
}

// work lets a new process of the agent work until it is done or reaches point,
// where it ends as if it were killed; it says whether it was done.
func (h *host) work(point string, work func(*agent.Agent) error) (done bool) {
	h.t.Helper()
	a, err := agent.Open(agent.Options{State: h.state, Version: "test", Clock: h.clock, Out: &h.out, Crash: func(at string) {
		if at == point {
			runtime.Goexit()
		}
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- work(a)
	}()
	err, done = <-ended
	if closed := a.Close(); err != nil || closed != nil {
		h.t.Fatal(err, closed)
	}
	return done
}

// expire makes the stored access token one that has to be refreshed.
func (h *host) expire() {
	h.t.Helper()
	path := filepath.Join(h.state, "session.json")
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	var session map[string]any
	if err := json.Unmarshal(text, &session); err != nil {
		h.t.Fatal(err)
	}
	session["expires_at_ms"] = 1
	if text, err = json.Marshal(session); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// The real agent at the real server: no kill between an answer of the server
// and its save costs the login, be it of the registration or of a refresh.
func TestAgentOutlivesKillsBetweenAnswerAndSave(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		me := p.Person("me@example.org")
		h := &host{t: t, state: t.TempDir(), clock: &wiretest.Clock{}}
		code := regexp.MustCompile(`confirm the code (\S+)`)
		h.clock.OnSleep = func(time.Duration) { // the agent waits for approval
			me.Do("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": code.FindStringSubmatch(h.out.String())[1]}, 200)
			h.clock.OnSleep = nil
		}
		login := func(a *agent.Agent) error { return a.Login(context.WithoutCancel(t.Context()), p.URL, "") }
		once := func(a *agent.Agent) error { return a.Once(context.WithoutCancel(t.Context())) }
		if h.work("registration-answered", login) || !h.work("", once) {
			t.Fatal("the registration was not cut short, or not ended")
		}
		for range 2 {
			h.expire()
			for range 3 {
				if h.work("refresh-answered", once) {
					t.Fatal("the refresh was not cut short")
				}
			}
			h.work("", once)
		}
		var devices []struct{ ID int64 }
		if me.Do("GET", "/apiv1/me/devices", nil, 200).Data(t, &devices); len(devices) != 1 {
			t.Errorf("%d devices", len(devices))
		}
	})
}
