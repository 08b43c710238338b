package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"certharbor.dev/certharbor/internal/durable"
)

// ErrDamaged is wrapped by Read when a state file exists but holds no valid
// JSON of the expected shape.
var ErrDamaged = errors.New("state file is damaged")

// Dir is an open state folder. Its methods may be called from several
// goroutines as long as no two write the same file.
type Dir struct {
	path string
}

// Open makes the folder at path when it is missing, takes all rights on it
// from group and others, and returns it.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("make state folder (choose another with --state, or run as a user who may write there): %w", err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(abs, 0o700); err != nil {
			return nil, fmt.Errorf("state folder is open to others and cannot be closed: %w", err)
		}
	}
	return &Dir{path: abs}, nil
}

// At gives the folder at path for reading, without making or changing it.
func At(path string) *Dir { return &Dir{path: path} }

// Path gives the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// Write stores v as JSON under name, 0600, durably (see package durable).
func (d *Dir) Write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := durable.WriteFile(filepath.Join(d.path, name), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// Read loads name into v and says whether the file was there. A file that is
// not valid JSON gives an error that wraps ErrDamaged.
func (d *Dir) Read(name string, v any) (bool, error) {
	data, err := os.ReadFile(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read state: %w", err)
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(v); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrDamaged, filepath.Join(d.path, name), err)
	}
	return true, nil
}

// Remove deletes name durably; a missing file is no error.
func (d *Dir) Remove(name string) error {
	if err := durable.Remove(filepath.Join(d.path, name)); err != nil {
		return err
	}
	return durable.SyncDir(d.path)
}

// SetAside renames a damaged file to <name>.damaged, so that it can be looked
// at and the agent can start anew.
func (d *Dir) SetAside(name string) error {
	path := filepath.Join(d.path, name)
	return durable.Rename(path, path+".damaged")
}
