package agent_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

func TestOnceInstallsRenewsAndReports(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.mustOnce() // nothing is configured yet
	first := r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.mustOnce()
	if r.serial() != first || r.reloads() != 1 {
		t.Fatalf("serial %s, want %s; %d reloads", r.serial(), first, r.reloads())
	}
	second := r.server.Issue(5, "a.test")
	r.restart()
	r.mustOnce()
	r.mustOnce()
	if r.serial() != second || r.reloads() != 2 {
		t.Errorf("serial %s, want %s; %d reloads", r.serial(), second, r.reloads())
	}
	results := r.events("install_result")
	if len(results) != 2 || results[1]["serial"] != second || results[1]["cert_id"] != 5.0 || results[1]["status"] != "ok" {
		t.Errorf("reported %v", results)
	}
	if v := r.events("agent_version"); len(v) != 2 || v[0]["version"] != "1.2.3" || v[0]["device_public_id"] != r.status().DevicePublicID {
		t.Errorf("announced %v", v)
	}
	s := r.status()
	if s.ConfigVersion != 1 || s.Cursor == "" || s.LastContactMS == 0 || len(s.Items) != 2 || s.Items[0].Serial != second || s.Unreported != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestOnceSaysWhatFailed(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair, copyOther, `{"id":"reload","type":"exec","depends_on":["pair"],"cmd":"echo broken; exit 7"}`)
	err := r.once()
	if !errors.Is(err, agent.ErrItems) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"other is failed", "404", "reload is failed", "exit status 7", "broken"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	var failed []string
	for _, e := range r.events("install_result") {
		if e["status"] == "failed" && e["error"] != "" {
			failed = append(failed, e["item_id"].(string))
		}
	}
	if len(failed) != 3 {
		t.Errorf("reported %v", failed)
	}
}

func TestOnceWithoutServer(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	serial := r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.mustOnce()
	for name, fault := range map[string]func(){
		"hangs up":  func() { r.server.Fail("self", 100, wiretest.Hangup) },
		"answers 5": func() { r.server.Fail("self", 100, wiretest.Status(502, 0, 0, "")) },
	} {
		fault()
		err := r.once()
		if err == nil || !strings.Contains(err.Error(), "stays as it is") || !strings.Contains(err.Error(), r.server.URL) {
			t.Errorf("%s: %v", name, err)
		}
		if s := r.status(); s.LastError == "" {
			t.Errorf("%s: status does not tell", name)
		}
		r.server.Heal()
	}
	r.mustOnce()
	if r.serial() != serial || r.reloads() != 1 || r.status().LastError != "" {
		t.Errorf("serial %s, %d reloads, %q", r.serial(), r.reloads(), r.status().LastError)
	}
}

// A private key that is still being wrapped is asked for again after 3 s,
// doubling, twelve times in all.
func TestOnceWaitsForTheWrap(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	serial := r.server.Issue(5, "a.test")
	r.server.Issue(6, "b.test")
	r.server.SetPending(5, true)
	r.configure(copyPair, copyOther)
	n := 0
	r.clock.OnSleep = func(time.Duration) {
		if n++; n == 4 {
			r.server.SetPending(5, false)
		}
		if r.read("other.pem") == "" {
			t.Error("the other certificate was held up")
		}
	}
	r.mustOnce()
	if r.serial() != serial || n != 4 {
		t.Errorf("serial %s after %d waits", r.serial(), n)
	}
	r.clock.OnSleep = nil
	r.server.SetPending(5, true)
	r.server.Issue(5, "a.test")
	before := len(r.clock.Slept())
	err := r.once()
	if err == nil || !strings.Contains(err.Error(), "pair is failed") || r.serial() != serial {
		t.Fatalf("got %v", err)
	}
	slept := r.clock.Slept()[before:]
	if len(slept) != 11 || slept[0].Round(time.Second) != 3*time.Second || slept[10].Round(time.Second) != 3072*time.Second {
		t.Errorf("waited %v", slept)
	}
	// A time limit ends the waiting.
	ctx, cancel := context.WithCancel(t.Context())
	r.clock.OnSleep = func(time.Duration) { cancel() }
	if err := r.agent.Once(ctx); !errors.Is(err, agent.ErrItems) || !strings.Contains(err.Error(), "waiting") {
		t.Errorf("got %v", err)
	}
}

func TestNotIssuedYet(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair)
	r.server.Fail("/certificates/5", 1, wiretest.Status(409, 5033, 0, "NOT_ISSUED"))
	if err := r.once(); err == nil || !strings.Contains(err.Error(), "pair is waiting") || len(r.clock.Slept()) != 0 {
		t.Errorf("got %v after %v", err, r.clock.Slept())
	}
	if n := len(r.events("install_result")); n != 0 {
		t.Errorf("%d failures reported", n)
	}
	r.mustOnce()
}

// One certificate that makes the server fail must not keep the others out.
func TestPoisonedCertificate(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.server.Issue(6, "b.test")
	r.server.SwapKey(6)
	r.configure(copyPair, copyOther)
	if err := r.once(); err == nil || !strings.Contains(err.Error(), "does not match its private key") {
		t.Errorf("got %v", err)
	}
	if r.serial() == "" || r.read("other.key") != "" {
		t.Error("the good one is missing, or the bad one is there")
	}
	r.server.Fail("/certificates/6", 1, wiretest.Status(500, 5017, 0, ""))
	if err := r.once(); err == nil || !strings.Contains(err.Error(), "answered 500") {
		t.Errorf("got %v", err)
	}
}

func TestApplyForces(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	for i, force := range []bool{false, false, true} {
		if err := r.agent.Apply(t.Context(), force); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 1, 2}[i]; r.reloads() != want {
			t.Errorf("%d reloads, want %d", r.reloads(), want)
		}
	}
	if raw, err := r.agent.InstallConfig(t.Context()); err != nil || !strings.Contains(string(raw), `"pair"`) {
		t.Errorf("%s, %v", raw, err)
	}
	if raw, err := agent.StoredInstallConfig(r.path("state")); err != nil || !strings.Contains(string(raw), `"pair"`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// Outcomes that could not be told are told later.
func TestReportsSurviveAServerThatDoesNotListen(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair)
	r.server.Fail("/notify", 2, wiretest.Status(503, 5017, 0, ""))
	r.mustOnce()
	if s := r.status(); s.Unreported != 1 {
		t.Errorf("%d unreported", s.Unreported)
	}
	r.restart()
	r.mustOnce()
	if n := len(r.events("install_result")); n != 1 || r.status().Unreported != 0 {
		t.Errorf("%d reported, %d not", n, r.status().Unreported)
	}
}

func TestDamagedSyncState(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	r.server.Issue(5, "a.test")
	r.configure(copyPair, reload)
	r.mustOnce()
	if err := os.WriteFile(r.path("state/sync.json"), []byte("\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.mustOnce()
	if r.reloads() != 1 {
		t.Errorf("%d reloads", r.reloads())
	}
}
