package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"certharbor.dev/certharbor/internal/agent/folder"
)

// maxFile bounds a file that is installed, and with it what is read of the
// present one: a larger one is another one.
const maxFile = 1 << 20

// other stands for the digest of what is there and is none of ours.
const other = "other"

// folder opens the folder of a target, as package folder says. missing says
// whether one that is missing is made.
func (e *Engine) folder(target string, missing bool) (*folder.Folder, error) {
	opt := folder.Options{Never: []folder.ID{e.State.ID()}, Step: e.Step}
	if missing {
		opt.Make = 0o755 // services of other users must get through to their certificates
	}
	return folder.Open(filepath.Dir(target), opt)
}

// sumOf gives the SHA-256 of a present target, "" when there is none. A link
// and a file that is too large to be ours are other, whatever they hold.
func (e *Engine) sumOf(path string) (string, error) {
	f, err := e.folder(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	return sumIn(f, filepath.Base(path))
}

func sumIn(f *folder.Folder, name string) (string, error) {
	info, err := f.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case info.Mode&fs.ModeSymlink != 0 || info.Mode.IsRegular() && info.Size > maxFile:
		return other, nil
	}
	file, _, err := f.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	sum := sha256.New()
	if n, err := io.Copy(sum, io.LimitReader(file, maxFile+1)); err != nil || n > maxFile {
		return other, err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
