package statedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/agent/statedir"
)

func open(t *testing.T) *statedir.Dir {
	t.Helper()
	d, err := statedir.Open(filepath.Join(t.TempDir(), "deep", "state"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpenClosesFolderToOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write("x.json", map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{".": 0o700, "x.json": 0o600} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
}

func TestReadTellsAbsentFromDamaged(t *testing.T) {
	t.Parallel()
	d := open(t)
	var v map[string]int
	if found, err := d.Read("x.json", &v); found || err != nil {
		t.Fatalf("absent: %v, %v", found, err)
	}
	for _, content := range []string{"", "\x00\x00\x00", "{", `{"a":"b"}`} {
		if err := os.WriteFile(filepath.Join(d.Path(), "x.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Read("x.json", &v); !errors.Is(err, statedir.ErrDamaged) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if err := d.SetAside("x.json"); err != nil {
		t.Fatal(err)
	}
	if found, err := d.Read("x.json", &v); found || err != nil {
		t.Errorf("after setting aside: %v, %v", found, err)
	}
}

func TestLockHoldsOffTheSecond(t *testing.T) {
	t.Parallel()
	d := open(t)
	if pid, err := d.Holder(); pid != "" || err != nil {
		t.Fatalf("free folder held by %q, %v", pid, err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	self := strconv.Itoa(os.Getpid())
	_, err = d.Lock()
	if !errors.Is(err, statedir.ErrLocked) || !strings.Contains(err.Error(), self) {
		t.Fatalf("second lock: %v", err)
	}
	if pid, err := d.Holder(); pid != self || err != nil {
		t.Errorf("holder %q, %v", pid, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Error(err)
	}
}

// A lock file with garbage in it, or an empty one, holds nobody.
func TestLockFileLeftBehindHoldsNobody(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, content := range []string{"", "\x00\x00", "99999999"} {
		if err := os.WriteFile(filepath.Join(d.Path(), "lock"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		lock, err := d.Lock()
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

// Looking at the lock, for an instant, must not keep an agent from starting.
func TestLockWaitsForALook(t *testing.T) {
	t.Parallel()
	d := open(t)
	f, err := os.OpenFile(filepath.Join(d.Path(), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { _ = f.Close() })
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}
