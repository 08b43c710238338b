package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxTurns bounds how often a walk starts again because of a link.
const maxTurns = 100

// walk is one way from the root to a folder.
type walk struct {
	opt  Options
	self int
	step func(op, path string)
	as   *rights // since the first folder of another user; nil before
	// shared: the folder above is written by several users and has the sticky bit.
	shared bool
}

func newWalk(opt Options) *walk {
	step := opt.Step
	if step == nil {
		step = func(string, string) {}
	}
	return &walk{opt: opt, self: os.Geteuid(), step: step}
}

// run gives a descriptor of the folder at path.
func (w *walk) run(path string) (int, error) {
	names := split(path)
	for range maxTurns {
		fd, turned, err := w.descend(names)
		if err != nil {
			return -1, err
		}
		if turned == nil {
			return fd, nil
		}
		names = turned
	}
	return -1, &fs.PathError{Op: "open folder", Path: path, Err: unix.ELOOP}
}

// descend opens names one after the other. A link among them gives the names
// to start again with.
func (w *walk) descend(names []string) (fd int, turned []string, err error) {
	w.as, w.shared = nil, false
	fd, err = again(func() (int, error) { return unix.Open("/", searchFlags, 0) })
	if err != nil {
		return -1, nil, &fs.PathError{Op: "open folder", Path: "/", Err: err}
	}
	defer func() {
		if err != nil || turned != nil {
			_ = unix.Close(fd)
		}
	}()
	if err := w.judge(fd, "/", len(names) == 0); err != nil {
		return fd, nil, err
	}
	for i, name := range names {
		if name == ".." { // of a link; those before are folders
			return fd, slices.Concat(names[:max(0, i-1)], names[i+1:]), nil
		}
		path := "/" + strings.Join(names[:i+1], "/")
		link, err := w.link(fd, name, path)
		if err != nil {
			return fd, nil, err
		}
		if link != "" {
			return fd, turn(names[:i], link, names[i+1:]), nil
		}
		next, err := w.enter(fd, name, path)
		if err != nil {
			return fd, nil, err
		}
		_ = unix.Close(fd)
		fd = next
		if err := w.judge(fd, path, i == len(names)-1); err != nil {
			return fd, nil, err
		}
	}
	// To sync a folder needs a descriptor that may read it.
	read, err := w.open(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return fd, nil, &fs.PathError{Op: "open folder", Path: "/" + strings.Join(names, "/"), Err: err}
	}
	_ = unix.Close(fd)
	return read, nil, nil
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

func turn(before []string, link string, after []string) []string {
	if filepath.IsAbs(link) {
		before = nil
	}
	return slices.Concat(before, split(link), after)
}

// link gives where name leads when it is a link; "" when it is none or missing.
func (w *walk) link(dir int, name, path string) (string, error) {
	w.step("look at", path)
	var st unix.Stat_t
	err := w.as.do(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, fs.ErrNotExist) && w.opt.Make != 0 {
		return "", w.make(dir, name, path)
	}
	if err != nil {
		return "", &fs.PathError{Op: "open folder", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", nil
	}
	if w.as != nil || !w.trusted(int(st.Uid)) {
		return "", &Refusal{path, "is a link that another user can change: name the folder it leads to"}
	}
	w.step("read link", path)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil || n <= 0 || n == len(buf) {
		return "", &fs.PathError{Op: "read link", Path: path, Err: errors.Join(err, unix.ELOOP)}
	}
	return string(buf[:n]), nil
}

// make makes a missing folder, durably.
func (w *walk) make(dir int, name, path string) error {
	w.step("make folder", path)
	err := w.as.do(func() error { return unix.Mkdirat(dir, name, uint32(w.opt.Make.Perm())) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "make folder", Path: path, Err: err}
	}
	above, err := w.open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err == nil {
		err = errors.Join(unix.Fsync(above), unix.Close(above))
	}
	if err != nil {
		return &fs.PathError{Op: "make folder", Path: path, Err: err}
	}
	return nil
}

func (w *walk) enter(dir int, name, path string) (int, error) {
	w.step("open folder", path)
	fd, err := w.open(dir, name, searchFlags)
	if err != nil {
		return -1, &fs.PathError{Op: "open folder", Path: path, Err: err}
	}
	return fd, nil
}

func (w *walk) open(dir int, name string, flags int) (fd int, err error) {
	err = w.as.do(func() error {
		fd, err = again(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
		return err
	})
	return fd, err
}

// again repeats a call that a signal interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
