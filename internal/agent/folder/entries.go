package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotFile is wrapped when an entry is no regular file.
var ErrNotFile = errors.New("is there and is not a file")

// ErrTooLarge is wrapped when a file is larger than may be read.
var ErrTooLarge = errors.New("is too large")

// Stat looks at an entry; a link is seen as a link.
func (f *Folder) Stat(name string) (Info, error) {
	var st unix.Stat_t
	err := f.do("look at", name, func() error { return unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return infoOf(&st), err
}

// Open opens a regular file for reading and tells what was opened. Links are
// not followed, and what is no file is not opened: that may block or do things.
func (f *Folder) Open(name string) (*os.File, Info, error) {
	info, err := f.Stat(name)
	if err != nil {
		return nil, info, err
	}
	if !info.Mode.IsRegular() {
		return nil, info, f.fail("open", name, ErrNotFile)
	}
	if err := f.mixed(name, info.UID); err != nil {
		return nil, info, err
	}
	fd := -1
	err = f.do("open", name, func() error {
		fd, err = again(func() (int, error) {
			return unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		})
		return err
	})
	if err != nil {
		return nil, info, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, info, errors.Join(f.fail("look at", name, err), unix.Close(fd))
	}
	info = infoOf(&st)
	if !info.Mode.IsRegular() { // exchanged between the two calls
		return nil, info, errors.Join(f.fail("open", name, ErrNotFile), unix.Close(fd))
	}
	if err := f.mixed(name, info.UID); err != nil {
		return nil, info, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), info, nil
}

// mixed refuses a file that is not of the user whose rights count here: that
// user may have given another's file a name in this folder.
func (f *Folder) mixed(name string, uid int) error {
	if !f.Foreign() || uid == f.owner() {
		return nil
	}
	return &Refusal{filepath.Join(f.path, name), fmt.Sprintf("belongs to %s and its folder to %s: chown one of them", who(uid), who(f.as.uid))}
}

// OpenLock opens a file for reading and writing and makes it, 0600, when it is
// missing.
func (f *Folder) OpenLock(name string) (*os.File, Info, error) {
	fd, err := -1, error(nil)
	err = f.do("open", name, func() error {
		fd, err = again(func() (int, error) {
			return unix.Openat(f.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		})
		return err
	})
	if err != nil {
		return nil, Info{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, Info{}, errors.Join(f.fail("look at", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), infoOf(&st), nil
}

// Read gives the content of a regular file of at most limit bytes.
func (f *Folder) Read(name string, limit int64) ([]byte, Info, error) {
	file, info, err := f.Open(name)
	if err != nil {
		return nil, info, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	if info.Size > limit {
		return nil, info, f.fail("read", name, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, info.Size, limit))
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit { // it grows
		err = fmt.Errorf("%w: at most %d bytes", ErrTooLarge, limit)
	}
	return data, info, f.fail("read", name, err)
}

// Rename moves from over to.
func (f *Folder) Rename(from, to string) error {
	return f.do("rename", from, func() error { return unix.Renameat(f.fd, from, f.fd, to) })
}

// Link gives an entry a second name. A link gets one itself, wherever it leads.
func (f *Folder) Link(from, to string) error {
	return f.do("link", from, func() error { return unix.Linkat(f.fd, from, f.fd, to, 0) })
}

// CopyLink makes to a link that leads where the link from leads.
func (f *Folder) CopyLink(from, to string) error {
	return f.do("copy link", from, func() error {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(f.fd, from, buf)
		if err != nil {
			return err
		}
		return unix.Symlinkat(string(buf[:n]), f.fd, to)
	})
}

// Remove deletes an entry that is no folder; one that does not exist is no error.
func (f *Folder) Remove(name string) error {
	err := f.do("remove", name, func() error { return unix.Unlinkat(f.fd, name, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
