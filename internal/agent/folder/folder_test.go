package folder_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/agent/folder"
)

const stranger, third = 65534, 65533

// asRoot says whether folders can be given to other users here. What needs that
// is checked with the agent's own user in their place where it is not so.
func asRoot() bool { return os.Geteuid() == 0 }

type tree struct {
	t   *testing.T
	dir string
}

// newTree gives a folder of our own that others can pass.
func newTree(t *testing.T) tree {
	t.Helper()
	dir := t.TempDir()
	tr := tree{t, dir}
	tr.must(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755))
	return tr
}

func (tr tree) must(errs ...error) {
	tr.t.Helper()
	if err := errors.Join(errs...); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr tree) path(name string) string { return filepath.Join(tr.dir, name) }

func (tr tree) mkdir(name string, mode os.FileMode, owner ...int) {
	tr.t.Helper()
	tr.must(os.MkdirAll(tr.path(name), 0o755), os.Chmod(tr.path(name), mode))
	if len(owner) > 0 && asRoot() {
		tr.must(os.Chown(tr.path(name), owner[0], owner[len(owner)-1]), os.Chmod(tr.path(name), mode))
	}
}

func (tr tree) write(name, text string, owner int) {
	tr.t.Helper()
	tr.must(os.WriteFile(tr.path(name), []byte(text), 0o600))
	if asRoot() {
		tr.must(os.Chown(tr.path(name), owner, owner))
	}
}

func (tr tree) link(to, name string, owner int) {
	tr.t.Helper()
	tr.must(os.Symlink(to, tr.path(name)))
	if asRoot() {
		tr.must(os.Lchown(tr.path(name), owner, owner))
	}
}

func (tr tree) open(name string, opt folder.Options) *folder.Folder {
	tr.t.Helper()
	f, err := folder.Open(tr.path(name), opt)
	tr.must(err)
	tr.t.Cleanup(func() { _ = f.Close() })
	return f
}

// Which ways lead to a folder, and what is said of those that do not.
func TestWays(t *testing.T) {
	t.Parallel()
	self := os.Geteuid()
	tr := newTree(t)
	tr.mkdir("own/deep", 0o755)
	tr.mkdir("shared", 0o777)
	tr.mkdir("shared/own", 0o755)
	tr.mkdir("sticky", 0o777|os.ModeSticky)
	tr.mkdir("sticky/own", 0o755)
	tr.mkdir("team", 0o775, self, third)
	tr.mkdir("rootgroup", 0o775)
	tr.link("own/deep", "short", self)
	tr.link("../"+filepath.Base(tr.dir)+"/short/../deep", "winding", self) // .. of where short leads
	tr.link(tr.path("own"), "absolute", self)
	tr.link("ring", "ring", self)
	tr.link("shared/own", "viashared", self)
	tr.write("file", "x", self)
	ways := map[string]string{
		"own/deep": "", "sticky/own": "", "short": "", "winding": "", "absolute/deep": "", "rootgroup": "",
		"shared": "chmod go-w", "shared/own": "chmod go-w", "sticky": "chmod go-w", "viashared": "chmod go-w",
		"ring": "too many levels", "file": "not a directory", "file/x": "not a directory", "absent": "no such file", "own/absent/x": "no such file",
	}
	if asRoot() {
		tr.mkdir("home", 0o755, stranger)
		tr.mkdir("home/deep", 0o700, stranger)
		tr.mkdir("home/group", 0o775, stranger)
		tr.mkdir("home/open", 0o777, stranger)
		tr.mkdir("home/root", 0o755)
		tr.mkdir("home/third", 0o755, third)
		tr.mkdir("home/root/deep", 0o755, stranger)
		tr.mkdir("home/closed", 0o000, stranger)
		tr.mkdir("home/closed/x", 0o755, stranger)
		tr.mkdir("sticky/squat", 0o755, stranger)
		tr.mkdir("sticky/squat/x", 0o755, stranger)
		tr.link(tr.path("own"), "home/link", stranger)
		tr.link(tr.path("own"), "home/rootslink", self)
		tr.link(tr.path("own"), "theirs", stranger)
		tr.link("home/deep", "tohome", self)
		maps.Copy(ways, map[string]string{
			"home": "", "home/deep": "", "home/group": "", "home/root/deep": "", "tohome": "",
			"home/open": "chmod go-w", "team": "chmod go-w", "home/root": "chown", "home/third": "chown", "home/closed/x": "permission denied",
			"home/link/deep": "name the folder", "home/link": "name the folder", "home/rootslink": "name the folder", "theirs": "name the folder",
			"sticky/squat": "everybody can write", "sticky/squat/x": "everybody can write",
		})
	}
	for name, says := range ways {
		f, err := folder.Open(tr.path(name), folder.Options{})
		if err == nil {
			err = f.Close()
		}
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	if _, err := folder.Open("relative", folder.Options{}); err == nil {
		t.Error("a relative path was taken")
	}
	own := tr.open("own", folder.Options{})
	for _, name := range []string{"own", "own/deep", "short", "absolute/deep"} {
		if f, err := folder.Open(tr.path(name), folder.Options{Never: []folder.ID{own.ID()}}); err == nil {
			t.Errorf("%s leads through what is barred (%v)", name, f.Close())
		}
	}
}

// Folders that are missing are made, and are the user's above.
func TestMissingFoldersAreMade(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.mkdir("home", 0o755, stranger)
	tr.open("home/a/b", folder.Options{Make: 0o755})
	tr.open("own/a/b", folder.Options{Make: 0o755})
	for name, want := range map[string]int{"home/a": stranger, "home/a/b": stranger, "own/a": 0, "own/a/b": 0} {
		info, err := os.Stat(tr.path(name))
		tr.must(err)
		if uid := ownerOf(info); asRoot() && uid != want {
			t.Errorf("%s belongs to %d", name, uid)
		}
		if info.Mode().Perm()&0o077 != 0o055 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	// A link that leads nowhere makes nothing.
	tr.link(tr.path("nowhere"), "home/link", stranger)
	if f, err := folder.Open(tr.path("home/link/x"), folder.Options{Make: 0o755}); err == nil && asRoot() {
		t.Errorf("made (%v)", f.Close())
	}
	if _, err := os.Stat(tr.path("nowhere")); err == nil && asRoot() {
		t.Error("the link was followed")
	}
}

// In a folder of another user nothing is done that this user could not do.
func TestRightsOfTheOwner(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.write("secret", "TOP SECRET", os.Geteuid())
	tr.mkdir("home", 0o755, stranger)
	f := tr.open("home", folder.Options{})
	if f.Foreign() != asRoot() {
		t.Errorf("foreign: %v", f.Foreign())
	}
	tr.must(f.Write("file", []byte("content"), 0o640))
	info, err := f.Stat("file")
	tr.must(err)
	if want := map[bool]int{true: stranger, false: os.Geteuid()}[asRoot()]; info.UID != want || info.Mode.Perm() != 0o640 {
		t.Errorf("%+v", info)
	}
	// A link is never followed, and what is another's is neither read nor kept.
	tr.link(tr.path("secret"), "home/link", stranger)
	tr.must(os.Link(tr.path("secret"), tr.path("home/hard")))
	if _, _, err := f.Read("link", 100); !errors.Is(err, folder.ErrNotFile) {
		t.Errorf("link: %v", err)
	}
	if asRoot() {
		var refused *folder.Refusal
		if _, _, err := f.Read("hard", 100); !errors.As(err, &refused) || !strings.Contains(err.Error(), "chown") {
			t.Errorf("hard link: %v", err)
		}
		if err := f.Create("new", nil, folder.Attr{UID: third, GID: -1}); !errors.As(err, &refused) {
			t.Errorf("a file of a third: %v", err)
		}
		tr.mkdir("home/root", 0o755)
		tr.write("home/root/file", "x", 0)
		if err := f.Rename("file", "root/file"); err == nil {
			t.Error("renamed into a folder of root")
		}
	}
	tr.must(f.Remove("hard"), f.Remove("hard"))
	// The folder is the one that was looked at, wherever it is now.
	tr.must(os.Rename(tr.path("home"), tr.path("moved")))
	tr.mkdir("trap", 0o755)
	tr.link("trap", "home", stranger)
	tr.must(f.Write("later", []byte("x"), 0o600))
	if _, err := os.Stat(tr.path("moved/later")); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(tr.path("trap")); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	// And the process has lost nothing.
	if asRoot() {
		tr.must(os.WriteFile(tr.path("afterwards"), nil, 0o600))
		if info, err := os.Stat(tr.path("afterwards")); err != nil || ownerOf(info) != 0 {
			t.Errorf("belongs to %d, %v", ownerOf(info), err)
		}
	}
}

// Group and mode of the file that is replaced are kept, whether or not its
// owner is in that group.
func TestKeep(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for _, owner := range []int{stranger, 0} {
		name := map[int]string{stranger: "home", 0: "own"}[owner]
		tr.mkdir(name, 0o755, owner)
		tr.write(name+"/old", "x", owner)
		tr.must(os.Chmod(tr.path(name+"/old"), 0o640))
		if asRoot() {
			tr.must(os.Chown(tr.path(name+"/old"), owner, third), os.Chmod(tr.path(name+"/old"), 0o4640))
		}
		f := tr.open(name, folder.Options{})
		old, err := f.Stat("old")
		tr.must(err, f.Create("new", nil, f.Keep(old)))
		got, err := f.Stat("new")
		tr.must(err)
		if got.UID != old.UID || got.GID != old.GID || got.Mode != 0o640 {
			t.Errorf("%s: %+v, want as %+v", name, got, old)
		}
	}
}
