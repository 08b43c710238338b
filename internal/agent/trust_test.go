package agent_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/agent"
	"certharbor.dev/certharbor/internal/agent/client"
)

// The review's case: a state folder of another user with a journal whose
// command would run as root.
func TestJournalOfAnotherUserIsNotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, proof := dir+"/state", dir+"/proof"
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	journal := `{"phase":"committing","steps":[{"item_id":"x","process":{"cmd":{"shell":"id > ` + proof + `"}},"outcome":{}}]}`
	if err := os.WriteFile(state+"/journal.json", []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	err := os.Chmod(state, 0o777) // without root no folder can be given away
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.Chmod(state, 0o700), os.Chown(state+"/journal.json", 65534, 65534), os.Chown(state, 65534, 65534))
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.Open(agent.Options{State: state})
	if err == nil {
		err = errors.Join(a.Once(t.Context()), a.Close())
		t.Errorf("the folder was taken (%v)", err)
	}
	if _, statErr := os.Stat(proof); statErr == nil {
		t.Error("the command ran")
	}
	if err == nil || !strings.Contains(err.Error(), "--state") || !strings.Contains(err.Error(), "ch") {
		t.Errorf("%v", err)
	}
}

// A server at plain http:// beyond this machine is not asked, given or stored;
// to log in elsewhere stays possible.
func TestPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	r := enrolled(t)
	const far = "http://192.0.2.1:9"
	if err := r.agent.Login(t.Context(), far, ""); !errors.Is(err, client.ErrInsecure) {
		t.Errorf("login: %v", err)
	}
	if err := r.agent.Enroll(t.Context(), far, "", "ak_x"); !errors.Is(err, client.ErrInsecure) {
		t.Errorf("enroll: %v", err)
	}
	r.replace("state/session.json", r.server.URL, far)
	r.restart()
	for name, try := range map[string]func() error{
		"once":  r.once,
		"run":   func() error { return r.agent.Run(t.Context()) },
		"apply": func() error { return r.agent.Apply(t.Context(), false) },
		"show":  func() error { _, err := r.agent.InstallConfig(t.Context()); return err },
	} {
		if err := try(); !errors.Is(err, client.ErrInsecure) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.agent.Login(t.Context(), r.server.URL, ""); err != nil {
		t.Fatal(err)
	}
	r.mustOnce()
}

// replace exchanges a text in a file.
func (r *rig) replace(name, old, now string) {
	r.t.Helper()
	text := r.read(name)
	if !strings.Contains(text, old) {
		r.t.Fatalf("%s does not hold %s", name, old)
	}
	if err := os.WriteFile(r.path(name), []byte(strings.ReplaceAll(text, old, now)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}
