package install_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"certharbor.dev/certharbor/internal/agent/install"
	"certharbor.dev/certharbor/internal/agent/wiretest"
)

const stranger = 65534

// asRoot says whether another user can be had here. Without root the agent's
// own user plays the part: the same names are exchanged under its hands.
func asRoot() bool { return os.Geteuid() == 0 }

const (
	topSecret = "TOP SECRET of root"
	inHome    = `{"id":"theirs","type":"copy","ob_type":"cert","ob_id":5,"from":["fullchain.pem"],"to":["@/home/tls/cert.pem"]}`
	inOwn     = `{"id":"ours","type":"copy","ob_type":"cert","ob_id":6,"from":["certificate.pem"],"to":["@/own/cert.pem"]}`
)

// memoryDir gives a temporary folder in memory, where the system has one:
// syncs cost nothing there.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "certharbor-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// newNeighbour gives a rig beside a user who owns home, in which certificates
// are installed, and files of root that this user has no right to.
func newNeighbour(t *testing.T) *rig {
	t.Helper()
	return neighbourIn(t, memoryDir(t))
}

func neighbourIn(t *testing.T, dir string) *rig {
	t.Helper()
	r := &rig{t: t, clock: &wiretest.Clock{}, dir: dir}
	r.restart()
	r.must(os.Chmod(r.dir, 0o755))
	for _, name := range []string{"home", "home/tls", "root", "own"} {
		r.must(os.Mkdir(r.path(name), 0o755))
	}
	r.write("root/secret", topSecret)
	r.write("root/cert.pem", "certificate of root")
	r.give("home")
	r.give("home/tls")
	return r
}

func (r *rig) must(errs ...error) {
	r.t.Helper()
	if err := errors.Join(errs...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) give(name string) {
	r.t.Helper()
	if asRoot() {
		r.must(os.Lchown(r.path(name), stranger, stranger))
	}
}

// unharmed checks that nothing of root was changed, and that no file which the
// other user can reach holds the secret.
func (r *rig) unharmed(when string) {
	r.t.Helper()
	if r.read("root/secret") != topSecret {
		r.t.Errorf("%s: the secret was changed", when)
	}
	if asRoot() { // a link that the agent's own user makes may lead there
		if list, err := os.ReadDir(r.path("root")); err != nil || len(list) != 2 || r.read("root/cert.pem") != "certificate of root" {
			r.t.Errorf("%s: the folder of root holds %v, %v; %q", when, list, err, r.read("root/cert.pem"))
		}
	}
	secret, err := os.Stat(r.path("root/secret"))
	r.must(err)
	if st, ok := secret.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || secret.Mode() != 0o600 {
		r.t.Errorf("%s: the secret has mode %v and owner %d", when, secret.Mode(), st.Uid)
	}
	r.must(filepath.WalkDir(r.path("home"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() > 1<<20 || os.SameFile(info, secret) {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), topSecret) {
			r.t.Errorf("%s: %s holds the secret", when, path)
		}
		return err
	}))
}

// swaps are what the owner of a folder may put in the place of a name. Root
// makes them here, so that no setting of the kernel forbids a thing.
func (r *rig) swaps() map[string]func(path string) error {
	entry := func(put func(path string) error) func(string) error {
		return func(path string) error {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return put(path)
		}
	}
	link := func(to string) func(string) error {
		return entry(func(path string) error {
			err := os.Symlink(to, path)
			if asRoot() {
				err = errors.Join(err, os.Lchown(path, stranger, stranger))
			}
			return err
		})
	}
	return map[string]func(string) error{
		"link to the secret":    link(r.path("root/secret")),
		"link to root's folder": link(r.path("root")),
		"link in a circle":      entry(func(path string) error { return os.Symlink(filepath.Base(path), path) }),
		"hard link to the secret": entry(func(path string) error {
			if !asRoot() { // it would be the agent's own file, which may be copied
				return os.Link(r.path("root/cert.pem"), path)
			}
			return os.Link(r.path("root/secret"), path)
		}),
		"pipe": entry(func(path string) error { return syscall.Mkfifo(path, 0o666) }),
		"device": entry(func(path string) error {
			if !asRoot() {
				return syscall.Mkfifo(path, 0o600)
			}
			return errors.Join(syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|5), os.Chmod(path, 0o666)) // as /dev/zero
		}),
		"folder": entry(func(path string) error {
			if !asRoot() {
				return syscall.Mkfifo(path, 0o600) // a folder in one's own is trouble to be told, not passed over
			}
			return errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "cert.pem"), []byte("x"), 0o600))
		}),
		"huge file": entry(func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o666), os.Truncate(path, 6<<40))
		}),
		"file": entry(func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("x"), 0o666), os.Chmod(path, 0o666))
		}),
		"nothing": entry(func(string) error { return nil }),
		"parent is a link": func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.RemoveAll(dir+".moved"), os.Rename(dir, dir+".moved"), os.Symlink(r.path("root"), dir))
		},
	}
}

// steps gives what the agent does on the way to home and in it, one text for
// each system call that takes a name there.
func (r *rig) watch(do func(n int, op, path string)) {
	n := 0
	r.engine.Step = func(op, path string) {
		if strings.HasPrefix(path, r.path("home")) {
			do(n, op, path)
			n++
		}
	}
}

// At every single step of an installation, the name that the step is about
// becomes something else, of every kind. Whatever the agent makes of it, no
// file of root is read, changed or opened to the other user, the agent neither
// hangs nor gives up, and what it installs elsewhere is installed.
func TestEverySwapAtEveryStep(t *testing.T) {
	t.Parallel()
	first, second := supply(t, record(t, 5, 1), record(t, 6, 1)), supply(t, record(t, 5, 2), record(t, 6, 2))
	for _, copied := range []bool{false, true} {
		var steps []string
		r := newNeighbour(t)
		prepareSwap(r, first, copied, func(_ int, op, path string) { steps = append(steps, op+" "+filepath.Base(path)) })
		r.apply(r.config(inHome+","+inOwn, ""), second)
		for _, part := range []string{"look at", "open", "create", "rename", "link", "remove"} {
			if !slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, part) }) {
				t.Fatalf("%s is no step of %v", part, steps)
			}
		}
		for n, step := range steps {
			t.Run(fmt.Sprintf("copied=%v/%d %s", copied, n, step), func(t *testing.T) {
				t.Parallel()
				for kind := range (&rig{}).swaps() {
					swapAt(t, kind, n, first, second, copied)
				}
			})
		}
	}
}

// prepareSwap installs a first version. copied lets hard links fail, so that
// former files are copied: a user can use up the links of a file.
func prepareSwap(r *rig, first install.Supply, copied bool, do func(n int, op, path string)) {
	r.t.Helper()
	r.want(r.apply(r.config(inHome+","+inOwn, ""), first), "theirs:ok ours:ok")
	r.watch(func(n int, op, path string) {
		if copied && op == "link" {
			former, err := filepath.Glob(r.path("home/tls/.certharbor-*.new"))
			if err == nil && len(former) == 1 {
				err = os.WriteFile(strings.TrimSuffix(former[0], "new")+"old", []byte("in the way"), 0o600)
			}
			r.must(err)
		}
		do(n, op, path)
	})
}

func swapAt(t *testing.T, kind string, at int, first, second install.Supply, copied bool) {
	t.Helper()
	r := newNeighbour(t)
	prepareSwap(r, first, copied, func(n int, _, path string) {
		if n != at || !strings.HasPrefix(path, r.path("home")+"/") {
			return
		}
		if kind == "parent is a link" && filepath.Dir(path) == r.path("home") {
			return // above home stands what is root's
		}
		if err := r.swaps()[kind](path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", kind, err)
		}
	})
	cfg := r.config(inHome+","+inOwn, "")
	got := r.apply(cfg, second)
	r.unharmed(kind)
	if got["ours"].Status != install.StatusOK || got["theirs"].Status == "" {
		t.Errorf("%s: %+v", kind, got)
	}
	if _, err := os.Stat(r.path("state/journal.json")); err == nil {
		t.Errorf("%s: a journal is left behind", kind)
	}
	// When the owner stops, all is as it should be with the next round.
	r.restart()
	r.must(os.RemoveAll(r.path("home")), os.MkdirAll(r.path("home/tls"), 0o755))
	r.give("home")
	r.give("home/tls")
	r.want(r.applyWith(cfg, second, install.Options{IgnoreBackoff: true}), "theirs:ok ours:ok")
	r.unharmed(kind)
	if !strings.Contains(r.read("home/tls/cert.pem"), "CERTIFICATE") {
		t.Errorf("%s: not installed afterwards", kind)
	}
}

// What an installation that a kill cut short finds changed in a folder of
// another user does not keep the agent from ending it, and from its other work.
func TestRecoveryIsNotHeldByAFolderOfAnother(t *testing.T) {
	t.Parallel()
	points := []string{"staging", "staged-file", "staged", "committing", "renamed-file", "before-command", "after-command", "finishing", "kept-previous", "recorded", "restoring", "put-back-file"}
	changes := map[string]func(r *rig) error{
		"as it was": func(*rig) error { return nil },
		"gone":      func(r *rig) error { return os.RemoveAll(r.path("home/tls")) },
		"a link": func(r *rig) error {
			return errors.Join(os.Rename(r.path("home/tls"), r.path("home/x")), os.Symlink(r.path("root"), r.path("home/tls")))
		},
		"open": func(r *rig) error { return os.Chmod(r.path("home/tls"), 0o777) },
		"blocked": func(r *rig) error {
			list, err := filepath.Glob(r.path("home/tls/.certharbor-*"))
			for _, name := range append(list, r.path("home/tls/cert.pem")) {
				err = errors.Join(err, r.swaps()["folder"](name))
			}
			return err
		},
	}
	for _, point := range points {
		for what, change := range changes {
			t.Run(point+"/"+what, func(t *testing.T) {
				t.Parallel()
				r := newNeighbour(t)
				fails := ""
				if point == "restoring" || point == "put-back-file" {
					fails = "; exit 1"
				}
				cfg := r.config(inHome+`,{"id":"reload","type":"exec","cmd":"echo x >> @/reload.log","depends_on":["theirs"]}`, "")
				first, second := record(t, 5, 1), record(t, 5, 2)
				r.want(r.apply(cfg, supply(t, first)), "theirs:ok reload:ok")
				bad := r.config(inHome+`,{"id":"reload","type":"exec","cmd":"echo x >> @/reload.log`+fails+`","depends_on":["theirs"]}`, "")
				if !r.killed(r.start(order{Config: bad, Record: &second, Point: point, N: 1})) {
					t.Fatalf("%s was not reached", point)
				}
				r.must(change(r))
				r.restart()
				r.must(r.engine.Recover(t.Context()))
				r.unharmed(what)
				if _, err := os.Stat(r.path("state/journal.json")); err == nil {
					t.Error("a journal is left behind")
				}
				other := r.config(strings.Replace(inOwn, `"ob_id":6`, `"ob_id":5`, 1), "")
				r.want(r.apply(other, supply(t, second)), "ours:ok")
				r.unharmed(what)
				if what == "as it was" && !strings.Contains(r.read("home/tls/cert.pem"), "CERTIFICATE") {
					t.Error("nothing is installed")
				}
			})
		}
	}
}

// The attack of the review: the owner of a folder exchanges names as fast as
// possible, with the links of the file used up, while certificates are renewed.
func TestOwnerOfAFolderRacesTheAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // on a disk, where a file has an end of links
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	r := neighbourIn(t, dir)
	cfg := r.config(inHome+","+inOwn, "")
	r.want(r.apply(cfg, supply(t, record(t, 5, 1), record(t, 6, 1))), "theirs:ok ours:ok")
	ctx, stop := context.WithCancel(t.Context())
	started, done := make(chan struct{}), make(chan error, 1)
	turns := 0
	go asStranger(done, func() error {
		return exchange(ctx, r.path("home"), r.path("root"), func() {
			if turns++; turns == 1 {
				close(started)
			}
		})
	})
	select {
	case <-started:
	case err := <-done:
		t.Fatalf("the other user could not begin: %v", err)
	}
	for serial := int64(2); serial < 20; serial++ {
		got := r.applyWith(cfg, supply(t, record(t, 5, serial), record(t, 6, serial)), install.Options{IgnoreBackoff: true, Force: true})
		r.want(got, "ours:ok")
	}
	stop()
	r.must(<-done)
	r.unharmed("race")
	t.Logf("%d exchanges", turns)
}

// exchange is the attacker, until ctx ends.
func exchange(ctx context.Context, home, root string, turned func()) error {
	cert := home + "/tls/cert.pem"
	crowd := func() { // as many names as the file system gives one file
		_ = os.Remove(home + "/full")
		if os.WriteFile(home+"/full", []byte("x"), 0o600) != nil {
			return
		}
		for n := 0; n < 66000 && os.Link(home+"/full", fmt.Sprintf("%s/more/%d", home, n)) == nil; n++ {
		}
	}
	if err := os.Mkdir(home+"/more", 0o755); err != nil {
		return err
	}
	crowd()
	put := func(fill func(path string) error) {
		if fill(home+"/new") == nil {
			_ = os.Rename(home+"/new", cert)
		}
		_ = os.Remove(home + "/new")
	}
	for ctx.Err() == nil {
		put(func(path string) error { return os.Rename(home+"/more/0", path) })
		put(func(path string) error { return os.Symlink(root+"/secret", path) })
		put(func(path string) error { return syscall.Mkfifo(path, 0o666) })
		_ = os.Rename(home+"/tls", home+"/tls.moved")
		_ = os.Symlink(root, home+"/tls")
		_ = os.Remove(home + "/tls")
		_ = os.Rename(home+"/tls.moved", home+"/tls")
		_ = os.Link(home+"/full", home+"/more/0")
		turned()
	}
	return nil
}
