package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path by data with permission bits mode. It
// writes a temporary file in the same folder, syncs it, renames it over path
// and syncs the folder. On an error the old file is untouched, except when
// only the last sync failed: then the new content may or may not survive a
// power cut.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	temp := path + ".new"
	if err := Create(temp, data, Attr{Mode: mode, UID: -1, GID: -1}); err != nil {
		return err
	}
	if err := Rename(temp, path); err != nil {
		return errors.Join(err, Remove(temp))
	}
	return nil
}

// Attr is what a new file gets beside its content.
type Attr struct {
	Mode     fs.FileMode // permission bits
	UID, GID int         // -1 leaves what the system gives
}

// Create writes data to a new file at path with the given attributes and
// syncs the file, not its folder. A leftover at path is replaced, never
// opened: it may be a link somebody put there.
func Create(path string, data []byte, attr Attr) (err error) {
	if err := Remove(path); err != nil {
		return err
	}
	// 0600 first: the content may be a key and the umask is not ours.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Remove(path))
		}
	}()
	if err := write(f, data, attr); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func write(f *os.File, data []byte, attr Attr) error {
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if attr.UID >= 0 || attr.GID >= 0 {
		if err := f.Chown(attr.UID, attr.GID); err != nil {
			return fmt.Errorf("keep owner: %w", err)
		}
	}
	if err := f.Chmod(attr.Mode); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Rename moves from over to and syncs the folder of to.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return SyncDir(filepath.Dir(to))
}

// Remove deletes path; a path that does not exist is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

// SyncDir makes renames and removals in the folder at path durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync folder %s: %w", path, err), d.Close())
	}
	return d.Close()
}
