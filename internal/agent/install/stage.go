package install

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"certharbor.dev/certharbor/internal/durable"
)

// stage writes every new file beside its target and gives the present one a
// second name. The journal names them all before the first is made: a key must
// not stay behind in a file nobody knows of. On an error it gives the step that
// failed, or -1 when the state folder did.
func (e *Engine) stage(j *journal) (int, error) {
	id := rand.Text()[:10]
	n := 0
	for _, s := range j.Steps {
		for i := range s.Files {
			c := &s.Files[i]
			stem := filepath.Join(filepath.Dir(c.To), fmt.Sprintf(".certharbor-%s-%d", id, n))
			c.Staged, c.Former = stem+".new", stem+".old"
			n++
		}
	}
	j.Phase = phaseStaging
	if err := e.saveJournal(j); err != nil {
		return -1, err
	}
	e.crash("staging")
	for n, s := range j.Steps {
		for i := range s.Files {
			c := &s.Files[i]
			if err := stageFile(c); err != nil {
				return n, fmt.Errorf("prepare %s: %w", c.To, err)
			}
			if err := durable.SyncDir(filepath.Dir(c.To)); err != nil {
				return n, err
			}
			e.crash("staged-file")
		}
	}
	return -1, nil
}

func stageFile(c *change) error {
	if err := makeFolder(filepath.Dir(c.To)); err != nil {
		return err
	}
	attr := durable.Attr{Mode: fs.FileMode(c.mode), UID: -1, GID: -1}
	info, err := os.Stat(c.To)
	if err == nil {
		attr = keep(info)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at present file: %w", err)
	}
	if err := durable.Create(c.Staged, c.data, attr); err != nil {
		return err
	}
	// Lstat: a link is kept as a link, wherever it leads.
	if _, err := os.Lstat(c.To); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c.HadOne = true
	return keepFormer(c.To, c.Former)
}

// keep takes over mode and owner of the file that will be replaced.
func keep(info fs.FileInfo) durable.Attr {
	attr := durable.Attr{Mode: info.Mode().Perm(), UID: -1, GID: -1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if int(st.Uid) != os.Geteuid() {
			attr.UID = int(st.Uid)
		}
		if int(st.Gid) != os.Getegid() {
			attr.GID = int(st.Gid)
		}
	}
	return attr
}

// makeFolder makes a missing target folder and its parents, durably.
func makeFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	// Services of other users must get through to their certificates.
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // see above
		return fmt.Errorf("make folder: %w", err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

// keepFormer gives the present file a second name; where the file system knows
// no hard links, or forbids this one, it makes a copy.
func keepFormer(path, former string) error {
	if err := durable.Remove(former); err != nil {
		return err
	}
	if os.Link(path, former) == nil {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("keep present file: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		goesTo, err := os.Readlink(path)
		if err != nil {
			return fmt.Errorf("keep present link: %w", err)
		}
		return os.Symlink(goesTo, former)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("keep present file: %w", err)
	}
	return durable.Create(former, data, keep(info))
}

// unstage removes what staging made.
func unstage(j *journal) error {
	var errs []error
	folders := map[string]bool{}
	for _, s := range j.Steps {
		for _, c := range s.Files {
			if _, err := os.Lstat(filepath.Dir(c.To)); err != nil {
				continue // staging did not get as far as this folder
			}
			errs = append(errs, durable.Remove(c.Staged), durable.Remove(c.Former))
			folders[filepath.Dir(c.To)] = true
		}
	}
	return errors.Join(append(errs, syncAll(folders))...)
}

func syncAll(folders map[string]bool) error {
	var errs []error
	for folder := range folders {
		errs = append(errs, durable.SyncDir(folder))
	}
	return errors.Join(errs...)
}
