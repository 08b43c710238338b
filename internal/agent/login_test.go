package agent_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

func TestLoginShowsCodeAndRegisters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.agent.Login(t.Context(), r.server.URL+"/", ""); err != nil {
		t.Fatal(err)
	}
	out := r.out.String()
	for _, want := range []string{r.server.URL + "/device?user_code=ABCD-0001", "code ABCD-0001", "Registered as device 1", "Next: certharbor-agent run"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	s := r.status()
	if !s.Registered || s.DeviceID != 1 || s.Server != r.server.URL ||
		!regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(s.DevicePublicID) {
		t.Errorf("status %+v", s)
	}
	// The identity outlives the process and another login: same device.
	r.restart()
	if err := r.agent.Login(t.Context(), r.server.URL, ""); err != nil {
		t.Fatal(err)
	}
	if again := r.status(); again.DevicePublicID != s.DevicePublicID || again.DeviceID != 1 {
		t.Errorf("status %+v", again)
	}
	files, err := filepath.Glob(r.path("state/*"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
}

func TestLoginOutcomes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(*rig)
		want    string // words of the error; "" = it works
	}{
		"denied":  {func(r *rig) { r.clock.OnSleep = func(time.Duration) { r.server.Answer("access_denied") } }, "denied"},
		"expired": {func(r *rig) { r.clock.OnSleep = func(time.Duration) { r.server.Answer("expired") } }, "login again"},
		"nobody":  {func(r *rig) { r.server.AutoApprove = false }, "expired before it was confirmed"},
		"slow down, then faults, then ready": {func(r *rig) {
			n := 0
			r.clock.OnSleep = func(time.Duration) {
				switch n++; n {
				case 1:
					r.server.Answer("slow_down")
				case 2:
					r.server.Fail("/auth/device", 1, wiretest.Hangup)
				case 3:
					r.server.Fail("/auth/device", 1, wiretest.Status(500, 5017, 0, ""))
				case 4:
					r.server.Answer("ready")
				}
			}
		}, ""},
		"lost registration answer": {func(r *rig) { r.server.LoseAnswer("/device/registration") }, ""},
		"server away":              {func(r *rig) { r.server.Fail("/auth/device", 1, wiretest.Hangup) }, "no answer from the server"},
		"code refused":             {func(r *rig) { r.server.Fail("/device/registration", 1, wiretest.Status(400, 5000, 0, "")) }, "answered 400"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			tt.prepare(r)
			err := r.agent.Login(t.Context(), r.server.URL, "")
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if r.status().Registered != (tt.want == "") {
				t.Error("registered in spite of the error, or not in spite of success")
			}
		})
	}
}

func TestEnroll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for key, want := range map[string]string{"secret": "ak_", "ak_wrong": "ForDeviceAuthenticate"} {
		if err := r.agent.Enroll(t.Context(), r.server.URL, "", key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := r.once(); err == nil || !strings.Contains(err.Error(), "certharbor-agent login") {
		t.Errorf("once before registration: %v", err)
	}
	if err := r.agent.Enroll(t.Context(), r.server.URL, "", wiretest.APIKey); err != nil {
		t.Fatal(err)
	}
	r.mustOnce()
	files, err := filepath.Glob(r.path("state/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err != nil || strings.Contains(string(text), wiretest.APIKey) {
			t.Errorf("%s holds the API key (%v)", f, err)
		}
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	if _, err := agent.Open(agent.Options{State: r.path("state")}); err == nil || !strings.Contains(err.Error(), "another certharbor-agent") {
		t.Errorf("got %v", err)
	}
	if s := r.status(); s.RunningPID == "" {
		t.Error("status does not see the agent")
	}
}

func TestDeadLoginAsksForANewOne(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Forget()
	err := r.once()
	if err == nil || !strings.Contains(err.Error(), client.ErrLoginRequired.Error()) {
		t.Fatalf("got %v", err)
	}
	if err := r.agent.Run(t.Context()); err == nil || !strings.Contains(err.Error(), client.ErrLoginRequired.Error()) {
		t.Errorf("run: %v", err)
	}
	if err := r.agent.Login(t.Context(), r.server.URL, ""); err != nil {
		t.Fatal(err)
	}
	r.mustOnce()
}

// No token or key may reach a log or the terminal.
func TestSecretsStayOutOfLogAndOutput(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.mustOnce()
	r.server.Revoke()
	r.server.Fail("/auth/refresh", 2, wiretest.Status(503, 5017, 1, ""))
	r.mustOnce()
	for _, secret := range regexp.MustCompile(`"(?:secret_key|access_token|refresh_token)": "([^"]+)"`).FindAllStringSubmatch(r.read("state/session.json")+r.read("state/identity.json"), -1) {
		if strings.Contains(r.log.String()+r.out.String(), secret[1]) {
			t.Error("a secret was written to log or output")
		}
	}
	if text := r.log.String() + r.out.String() + r.read("state/items.json"); strings.Contains(text, "PRIVATE KEY") {
		t.Error("a private key was written to log, output or state")
	}
}
