package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Options change one Open.
type Options struct {
	Own  bool        // refuse folders of other users: nothing is done with their rights
	Make fs.FileMode // permission bits of folders that are missing; 0 = none is made
	// Never are folders that must not be on the way.
	Never []ID
	// Step, when set, is called before each system call that takes a name, with
	// what it does and the path it is about. Only tests set it.
	Step func(op, path string)
}

// ID tells files apart, whatever their names.
type ID struct{ dev, ino uint64 }

// Folder is an open folder. Its methods take names of its entries, not paths.
type Folder struct {
	path string
	fd   int
	id   ID
	as   *rights // whose rights are used; nil = the agent's own
	step func(op, path string)
}

// Refusal says that a path cannot be used, because of what other users can do
// to it, and what the operator can do about that.
type Refusal struct{ Path, Reason string }

// Error names the path, the reason and the remedy.
func (r *Refusal) Error() string { return r.Path + " " + r.Reason }

// Gone says whether err means that a path leads to no folder, or to one that
// is not used: no later try can do anything there that an earlier one began.
func Gone(err error) bool {
	var r *Refusal
	return errors.As(err, &r) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// Open opens the folder at an absolute path, as the package comment says.
func Open(path string, opt Options) (*Folder, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("folder %s is not an absolute path", path)
	}
	w := newWalk(opt)
	fd, err := w.run(filepath.Clean(path))
	var r *Refusal
	if err != nil && w.as != nil && !errors.As(err, &r) {
		return nil, &Refusal{filepath.Clean(path), fmt.Sprintf("cannot be used with the rights of %s, the owner: %v", who(w.as.uid), err)}
	}
	if err != nil {
		return nil, err
	}
	f := &Folder{path: filepath.Clean(path), fd: fd, as: w.as, step: w.step}
	info, err := f.self()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.id = info.ID
	return f, nil
}

// Close gives the folder back.
func (f *Folder) Close() error { return unix.Close(f.fd) }

// Path gives the path that was opened.
func (f *Folder) Path() string { return f.path }

// ID tells this folder from others.
func (f *Folder) ID() ID { return f.id }

// Foreign says whether the folder is another user's, who can undo or prevent
// everything that is done in it.
func (f *Folder) Foreign() bool { return f.as != nil }

// owner gives whose the files are that are made here.
func (f *Folder) owner() int {
	if f.as == nil || f.as.gid < 0 {
		return os.Geteuid()
	}
	return f.as.uid
}

// Info is what a folder knows of an entry.
type Info struct {
	ID       ID
	Mode     fs.FileMode // type and permission bits
	UID, GID int
	Size     int64
}

func (f *Folder) self() (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return Info{}, f.fail("look at", "", err)
	}
	return infoOf(&st), nil
}

// Chmod sets the folder's own permission bits.
func (f *Folder) Chmod(mode fs.FileMode) error {
	return f.fail("chmod", "", unix.Fchmod(f.fd, uint32(mode.Perm())))
}

// Mode gives the folder's own permission bits.
func (f *Folder) Mode() (fs.FileMode, error) {
	info, err := f.self()
	return info.Mode.Perm(), err
}

// Sync makes what was created, renamed and removed in the folder durable.
func (f *Folder) Sync() error { return f.fail("sync", "", unix.Fsync(f.fd)) }

// do runs fn with the rights that count in this folder.
func (f *Folder) do(op, name string, fn func() error) error {
	if f.step != nil {
		f.step(op, filepath.Join(f.path, name))
	}
	return f.fail(op, name, f.as.do(fn))
}

// fail names the entry; a nil err stays nil.
func (f *Folder) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(f.path, name), Err: err}
}

func infoOf(st *unix.Stat_t) Info {
	perm := fs.FileMode(st.Mode) & fs.ModePerm
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		perm |= fs.ModeDir
	case unix.S_IFLNK:
		perm |= fs.ModeSymlink
	default:
		perm |= fs.ModeIrregular // a device, a pipe, a socket: nothing is ever done with one
	}
	if st.Mode&unix.S_ISVTX != 0 {
		perm |= fs.ModeSticky
	}
	return Info{
		ID:   ID{uint64(st.Dev), uint64(st.Ino)}, //nolint:unconvert // the types differ between systems
		Mode: perm, UID: int(st.Uid), GID: int(st.Gid), Size: st.Size,
	}
}
