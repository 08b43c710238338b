package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Attr is what a new file gets beside its content.
type Attr struct {
	Mode     fs.FileMode // permission bits
	UID, GID int         // -1 leaves what the system gives
}

// Keep takes over mode and owner of a file that will be replaced.
func (f *Folder) Keep(info Info) Attr {
	attr := Attr{Mode: info.Mode.Perm(), UID: info.UID, GID: info.GID}
	if attr.UID == f.owner() {
		attr.UID = -1
	}
	if attr.GID == os.Getegid() && !f.Foreign() {
		attr.GID = -1
	}
	return attr
}

// Write replaces the file name by data, durably: after a crash a reader finds
// the old content or the new one, whole. It writes name.new, syncs it, renames
// it and syncs the folder.
func (f *Folder) Write(name string, data []byte, mode fs.FileMode) error {
	temp := name + ".new"
	if err := f.Create(temp, data, Attr{Mode: mode, UID: -1, GID: -1}); err != nil {
		return err
	}
	if err := f.Rename(temp, name); err != nil {
		return errors.Join(err, f.Remove(temp))
	}
	return f.Sync()
}

// Create writes data to a new file and syncs the file, not the folder. A
// leftover of that name is replaced, never opened. In a folder of another user
// the file is that user's.
func (f *Folder) Create(name string, data []byte, attr Attr) (err error) {
	if attr.UID >= 0 {
		if err := f.mixed(name, attr.UID); err != nil {
			return err
		}
	}
	if err := f.Remove(name); err != nil {
		return err
	}
	fd := -1
	err = f.do("create", name, func() error {
		// 0600 first: the content may be a key and the umask is not ours.
		fd, err = again(func() (int, error) {
			return unix.Openat(f.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		})
		return err
	})
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	err = f.fill(file, data, attr)
	if closeErr := file.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close: %w", closeErr)
	}
	if err != nil {
		return errors.Join(err, f.Remove(name))
	}
	return nil
}

// fill works on the descriptor of the new file alone.
func (f *Folder) fill(file *os.File, data []byte, attr Attr) error {
	if _, err := file.Write(data); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if attr.UID >= 0 || attr.GID >= 0 {
		if err := file.Chown(attr.UID, attr.GID); err != nil {
			return fmt.Errorf("keep owner: %w", err)
		}
	}
	if err := file.Chmod(attr.Mode); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}
