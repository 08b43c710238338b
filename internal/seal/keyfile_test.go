package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLoadMakesTheFileOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Read of a missing file: %v", err)
	}
	first, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again, err := Load(path)
	if err != nil || again.ID() != first.ID() {
		t.Errorf("second Load: another key, %v", err)
	}
	if got, err := again.Open(home, mustSeal(t, first, "secret")); err != nil || string(got) != "secret" {
		t.Errorf("Open = %q, %v", got, err)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// TestLoadTogether: whoever comes first makes the key, all others use it.
func TestLoadTogether(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	const starters = 16
	ids := make([]string, starters)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range starters {
		group.Go(func() {
			<-start
			ring, err := Load(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = ring.ID()
		})
	}
	close(start)
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("several keys: %v", ids)
		}
	}
}

// TestLoadTogetherInProcesses is the same with processes instead of goroutines.
func TestLoadTogetherInProcesses(t *testing.T) {
	if path := os.Getenv("SEAL_TEST_LOAD"); path != "" {
		ring, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("id=%s", ring.ID())
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	outputs := make([]bytes.Buffer, 3)
	commands := make([]*exec.Cmd, len(outputs))
	for i := range commands {
		commands[i] = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLoadTogetherInProcesses$", "-test.v")
		commands[i].Env = append(os.Environ(), "SEAL_TEST_LOAD="+path)
		commands[i].Stdout = &outputs[i]
		if err := commands[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, command := range commands {
		if err := command.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", i, err, outputs[i].String())
		}
	}
	ring, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range outputs {
		if !strings.Contains(outputs[i].String(), "id="+ring.ID()) {
			t.Errorf("process %d has another key:\n%s", i, outputs[i].String())
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	good := formatKey(NewDataKey())
	flipped := []byte(good)
	flipped[20] ^= 2
	for name, test := range map[string]struct {
		text string
		mode fs.FileMode
	}{
		"group can read":   {good, 0o640},
		"others can read":  {good, 0o604},
		"group can write":  {good, 0o620},
		"empty":            {"", 0o600},
		"comments only":    {keyFileHead, 0o600},
		"cut":              {good[:30], 0o600},
		"altered":          {string(flipped), 0o600},
		"foreign id":       {"0011223344556677" + good[16:], 0o600},
		"NUL bytes":        {strings.Repeat("\x00", 64), 0o600},
		"zero key":         {strings.Repeat("0", 64), 0o600},
		"the key twice":    {good + good, 0o600},
		"too large":        {strings.Repeat("#\n", maxKeyFile), 0o600},
		"a key and a half": {good + good[:40] + "\n", 0o600},
	} {
		path := filepath.Join(t.TempDir(), "master.key")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if len(good) > 40 && strings.Contains(err.Error(), good[20:40]) {
			t.Errorf("%s: the error holds the key: %v", name, err)
		}
		if after, readErr := os.ReadFile(path); readErr != nil || string(after) != test.text {
			t.Errorf("%s: the refused file was changed, %v", name, readErr)
		}
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a folder: no error")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent", "master.key")); err == nil {
		t.Error("in a missing folder: no error")
	}
}

func TestParseForms(t *testing.T) {
	t.Parallel()
	one, two := NewDataKey(), NewDataKey()
	want := newRing(t, one, two)
	b64 := base64.StdEncoding.EncodeToString
	for name, text := range map[string]string{
		"file":        keyFileHead + formatKey(one) + "\n" + formatKey(two),
		"hexadecimal": hex.EncodeToString(one) + "\n" + strings.ToUpper(hex.EncodeToString(two)),
		"base64":      b64(one) + "\r\n" + b64(two) + "\r\n",
		"one line":    b64(one) + ", " + hex.EncodeToString(two),
	} {
		ring, err := Parse([]byte(text))
		if err != nil || ring.ID() != want.ID() || len(ring.byID) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	key := bytes.Repeat([]byte{7}, KeySize)
	f.Add([]byte(formatKey(key)))
	f.Add([]byte(keyFileHead + hex.EncodeToString(key)))
	f.Add([]byte(":,:\n,"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := Parse(text)
		if (ring == nil) == (err == nil) {
			t.Fatal("neither a keyring nor an error, or both")
		}
	})
}
