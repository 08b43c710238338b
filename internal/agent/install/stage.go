package install

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"certharbor.dev/certharbor/internal/agent/folder"
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
			if err := e.stageFile(j, c); err != nil {
				return n, fmt.Errorf("prepare %s: %w", c.To, err)
			}
			e.crash("staged-file")
		}
	}
	return -1, nil
}

func (e *Engine) stageFile(j *journal, c *change) error {
	f, err := e.at(j, c, true)
	if err != nil {
		return err
	}
	attr := folder.Attr{Mode: fs.FileMode(c.mode), UID: -1, GID: -1}
	info, err := present(f, c.name())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		c.HadOne = true
		if info.Mode.IsRegular() {
			attr = f.Keep(info)
		}
	}
	if err := f.Create(c.staged(), c.data, attr); err != nil {
		return err
	}
	if c.HadOne {
		if err := keepFormer(f, c.name(), c.former()); err != nil {
			return err
		}
	}
	return f.Sync()
}

// present looks at the file or link that will be replaced. What a file is like
// is asked of its descriptor.
func present(f *folder.Folder, name string) (folder.Info, error) {
	info, err := f.Stat(name)
	if err != nil || info.Mode&fs.ModeSymlink != 0 {
		return info, err
	}
	file, info, err := f.Open(name)
	if err != nil {
		return info, err
	}
	return info, file.Close()
}

// keepFormer gives the present file a second name; where the file system knows
// no hard links, or forbids this one, it makes a copy. A link is kept as a
// link, wherever it leads.
func keepFormer(f *folder.Folder, name, former string) error {
	if err := f.Remove(former); err != nil {
		return err
	}
	if f.Link(name, former) == nil {
		return nil
	}
	info, err := f.Stat(name)
	if err != nil {
		return err
	}
	if info.Mode&fs.ModeSymlink != 0 {
		return f.CopyLink(name, former)
	}
	data, info, err := f.Read(name, maxFile)
	if err != nil {
		return err
	}
	return f.Create(former, data, f.Keep(info))
}

// unstage removes what staging made.
func (e *Engine) unstage(j *journal) error {
	return e.undo(j, func(f *folder.Folder, c *change) error {
		return errors.Join(f.Remove(c.staged()), f.Remove(c.former()))
	})
}
