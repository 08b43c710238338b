package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"certharbor.dev/certharbor/internal/agent/folder"
)

// ErrDamaged is wrapped by Read when a state file exists but holds no valid
// JSON of the expected shape.
var ErrDamaged = errors.New("state file is damaged")

// maxFile bounds a state file. The largest holds an install-config, which
// comes in an answer of at most 4 MiB.
const maxFile = 16 << 20

// Dir is an open state folder. Its methods may be called from several
// goroutines as long as no two write the same file.
type Dir struct {
	path   string
	folder *folder.Folder // nil when At found none
}

// Open makes the folder at path when it is missing, takes all rights on it
// from group and others, and returns it. A folder that another user owns, can
// write, or can put another in place of, is refused: its files decide what the
// agent installs and runs.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", path, err)
	}
	f, err := folder.Open(abs, folder.Options{Own: true, Make: 0o700})
	if err != nil {
		return nil, fmt.Errorf("state folder (choose another with --state, or run as a user who may use this one): %w", err)
	}
	mode, err := f.Mode()
	if err == nil && mode&0o077 != 0 {
		err = f.Chmod(0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state folder is open to others and cannot be closed: %w", err), f.Close())
	}
	return &Dir{path: abs, folder: f}, nil
}

// At gives the folder at path for reading, without making or changing it. One
// that does not exist is empty.
func At(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", path, err)
	}
	f, err := folder.Open(abs, folder.Options{Own: true})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	return &Dir{path: abs, folder: f}, nil
}

// Close gives the folder back.
func (d *Dir) Close() error {
	if d.folder == nil {
		return nil
	}
	return d.folder.Close()
}

// Path gives the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// ID tells the folder from others, by whatever path they are reached.
func (d *Dir) ID() folder.ID { return d.folder.ID() }

// Write stores v as JSON under name, 0600, durably.
func (d *Dir) Write(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return d.WriteText(name, append(data, '\n'))
}

// WriteText stores a text under name, 0600, durably.
func (d *Dir) WriteText(name string, data []byte) error {
	if len(data) > maxFile {
		return fmt.Errorf("store %s: %d bytes are more than the agent reads again (%d)", name, len(data), maxFile)
	}
	if err := d.folder.Write(name, data, 0o600); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// Read loads name into v and says whether the file was there. A file that is
// not valid JSON gives an error that wraps ErrDamaged, one that another user
// may have written another error.
func (d *Dir) Read(name string, v any) (bool, error) {
	if d.folder == nil {
		return false, nil
	}
	data, info, err := d.folder.Read(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, folder.ErrTooLarge) {
		return false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return false, fmt.Errorf("read state: %w", err)
	}
	if err := d.own(name, info); err != nil {
		return false, err
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(v); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrDamaged, filepath.Join(d.path, name), err)
	}
	return true, nil
}

// own refuses a file that another user owns or may read or write.
func (d *Dir) own(name string, info folder.Info) error {
	path := filepath.Join(d.path, name)
	if info.UID != os.Geteuid() {
		return fmt.Errorf("state file %s belongs to user %d, this agent runs as user %d: chown %d %s, if you trust what it holds",
			path, info.UID, os.Geteuid(), os.Geteuid(), path)
	}
	if info.Mode.Perm()&0o077 != 0 {
		return fmt.Errorf("state file %s is open to others (mode %04o): chmod 600 %s, if you trust what it holds", path, info.Mode.Perm(), path)
	}
	return nil
}

// Remove deletes name durably; a missing file is no error.
func (d *Dir) Remove(name string) error {
	if err := d.folder.Remove(name); err != nil {
		return err
	}
	return d.folder.Sync()
}

// SetAside renames a damaged file to <name>.damaged, so that it can be looked
// at and the agent can start anew.
func (d *Dir) SetAside(name string) error {
	if err := d.folder.Rename(name, name+".damaged"); err != nil {
		return err
	}
	return d.folder.Sync()
}
