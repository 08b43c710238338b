package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// disk is a small disk with a data folder.
type disk struct {
	folder  string   // as the server sees it
	seen    string   // as the test does
	wrapper []string // with which the server is started
}

// smallDisk mounts a disk of so many KiB for the test. Without root it is
// mounted in a namespace that a process of the test keeps open.
func smallDisk(t *testing.T, kib int) disk {
	t.Helper()
	folder := t.TempDir()
	options := fmt.Sprintf("size=%dk,mode=0700", kib)
	if os.Getuid() == 0 {
		if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, options); err != nil {
			t.Fatalf("this test mounts a tmpfs, which root may not do here (a container needs --cap-add SYS_ADMIN): %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		return disk{folder: folder, seen: folder}
	}
	keeper := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o "$1" tmpfs "$2" && echo mounted && cat`, "sh", options, folder)
	input, err := keeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = keeper.Wait()
	})
	if n, err := output.Read(make([]byte, 16)); n == 0 {
		t.Fatalf("this test mounts a tmpfs in a namespace of its own, which this user may not do here; run it as root: %v", err)
	}
	pid := strconv.Itoa(keeper.Process.Pid)
	return disk{folder, "/proc/" + pid + "/root" + folder, []string{"nsenter", "--preserve-credentials", "--user", "--mount", "--target", pid}}
}

// fill takes what is left of the disk with a file, and returns its name.
func (d disk) fill(t *testing.T) string {
	t.Helper()
	f, err := os.Create(filepath.Join(d.seen, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	return f.Name()
}

// copyDatabase copies the database of a data folder whose server is not
// running, with its log if there is one, and returns the path of the copy.
func copyDatabase(t *testing.T, from, to string) string {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(filepath.Join(from, "certharbor.db"+suffix))
		if os.IsNotExist(err) && suffix != "" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "certharbor.db"+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(to, "certharbor.db")
}

// A full disk: writes are refused with a sentence that says so, reads go on,
// nothing is corrupt, and with space everything works again, without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	// Room for the database and for the longest log between two checkpoints:
	// only the ballast fills this disk.
	prepared, d := t.TempDir(), smallDisk(t, 24<<10)
	newUser(t, "w1@example.org", "--data", prepared)
	copyDatabase(t, prepared, d.seen)
	key, err := os.ReadFile(filepath.Join(prepared, "master.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(d.seen, "master.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	s := serve(t, setup{data: d.folder, wrapper: d.wrapper})
	w := newWriter(t, s, l, 1)
	for round := range 4 {
		for range 40 {
			if err := w.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ballast := d.fill(t)
		// The log may have room from before: write until it is used up, and on.
		writes, refusals := 0, 0
		for ; refusals < 3*poolSize && writes < 3000; writes += 2 {
			n := 1000 + int64(writes%poolSize)
			refusals += w.refused(t, w.webhook(t.Context(), n)) + w.refused(t, w.account(t.Context(), n))
		}
		t.Logf("round %d: %d of %d writes were refused", round, refusals, writes)
		if refusals < poolSize {
			t.Errorf("round %d: the disk was not full", round)
		}
		found := map[string]seen{}
		if err := w.observe(t.Context(), found); err != nil {
			t.Errorf("round %d: a read failed: %v", round, err)
		}
		l.compare(t, found)
		w.me.must("GET", "/health", nil, http.StatusOK, nil)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	l.verify(t, s, []*writer{w}, poolSize)
	s.kill()
	checkDatabase(t, copyDatabase(t, d.seen, t.TempDir()))
	s = serve(t, setup{data: d.folder, wrapper: d.wrapper})
	l.verify(t, s, []*writer{w}, poolSize)
	s.stop()
	checkDatabase(t, copyDatabase(t, d.seen, t.TempDir()))
}

// refused returns 1 for a write that was refused, and judges how.
func (w *writer) refused(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	r, ok := errors.AsType[*refused](err)
	if !ok || r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !strings.Contains(string(r.Body), nothingChanged) {
		t.Errorf("a full disk: %v", err)
	}
	return 1
}
