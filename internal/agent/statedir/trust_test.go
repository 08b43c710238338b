package statedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"certharbor.dev/certharbor/internal/agent/statedir"
)

const stranger = 65534

// give hands a path to another user, which only root can do. Without root it
// lets every user write it, which must be refused just as well.
func give(t *testing.T, path string) {
	t.Helper()
	var err error
	if os.Geteuid() == 0 {
		err = os.Lchown(path, stranger, stranger)
	} else {
		err = os.Chmod(path, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(path, 0o700), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A state folder that another user can change, or put another in place of, is
// refused, to work on and to look at, and the message says what to do.
func TestFoldersOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string) string
		says string // "" = it is taken
	}{
		"own":                   {func(t *testing.T, dir string) string { return mkdir(t, dir+"/s", 0o755) }, ""},
		"of another":            {func(t *testing.T, dir string) string { give(t, mkdir(t, dir+"/s", 0o700)); return dir + "/s" }, "ch"},
		"all can write":         {func(t *testing.T, dir string) string { return mkdir(t, dir+"/s", 0o777) }, "chmod go-w"},
		"all can write, sticky": {func(t *testing.T, dir string) string { return mkdir(t, dir+"/s", 0o777|os.ModeSticky) }, "chmod go-w"},
		"below another's": {func(t *testing.T, dir string) string {
			mkdir(t, dir+"/a/s", 0o700)
			give(t, dir+"/a")
			return dir + "/a/s"
		}, "ch"},
		"below an open one": {func(t *testing.T, dir string) string {
			mkdir(t, dir+"/a/s", 0o700)
			mkdir(t, dir+"/a", 0o777)
			return dir + "/a/s"
		}, "chmod go-w"},
		"below a sticky one": {func(t *testing.T, dir string) string {
			mkdir(t, dir+"/a/s", 0o700)
			mkdir(t, dir+"/a", 0o777|os.ModeSticky)
			return dir + "/a/s"
		}, ""},
		"through a link": {func(t *testing.T, dir string) string {
			mkdir(t, dir+"/real", 0o700)
			symlink(t, "real", dir+"/s")
			return dir + "/s"
		}, ""},
		"through another's link": {func(t *testing.T, dir string) string {
			mkdir(t, dir+"/a/real", 0o700)
			symlink(t, "real", dir+"/a/s")
			if give(t, dir+"/a"); os.Geteuid() == 0 {
				give(t, dir+"/a/s")
				if err := os.Chown(dir+"/a", 0, 0); err != nil { // the folder is root's, the link is not
					t.Fatal(err)
				}
			}
			return dir + "/a/s"
		}, "ch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := c.make(t, t.TempDir())
			for how, open := range map[string]func(string) (*statedir.Dir, error){"open": statedir.Open, "at": statedir.At} {
				d, err := open(path)
				if err == nil {
					err = d.Close()
				}
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", how, err)
				}
			}
		})
	}
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// A state file is used only when it is a file of ours that is closed to others.
func TestFilesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	const name = "journal.json"
	for what, c := range map[string]struct {
		make func(t *testing.T, path string) error
		says string
	}{
		"a link":   {func(_ *testing.T, path string) error { return os.Symlink("/dev/zero", path) }, "is not a file"},
		"a pipe":   {func(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o600) }, "is not a file"},
		"a folder": {func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, "is not a file"},
		"of another": {func(t *testing.T, path string) error {
			err := os.WriteFile(path, []byte("{}"), 0o600)
			give(t, path)
			return err
		}, "if you trust"},
		"all can read": {func(_ *testing.T, path string) error {
			return errors.Join(os.WriteFile(path, []byte("{}"), 0o600), os.Chmod(path, 0o644))
		}, "chmod 600"},
		"endless": {func(_ *testing.T, path string) error {
			return errors.Join(os.WriteFile(path, []byte("{}"), 0o600), os.Truncate(path, 1<<40))
		}, "damaged"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			if err := c.make(t, filepath.Join(d.Path(), name)); err != nil {
				t.Fatal(err)
			}
			var v map[string]any
			if found, err := d.Read(name, &v); found || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
}

// What could not be read again is not stored.
func TestStateFilesAreBounded(t *testing.T) {
	t.Parallel()
	d := open(t)
	if err := d.WriteText("x", make([]byte, 16<<20+1)); err == nil {
		t.Error("stored")
	}
}

// The lock is taken on a file of ours alone.
func TestLockIsNoLink(t *testing.T) {
	t.Parallel()
	d := open(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	symlink(t, victim, filepath.Join(d.Path(), "lock"))
	if _, err := d.Lock(); err == nil {
		t.Error("locked through a link")
	}
	if text, err := os.ReadFile(victim); string(text) != "keep me" {
		t.Errorf("the victim holds %q, %v", text, err)
	}
}
