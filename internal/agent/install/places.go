package install

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"certharbor.dev/certharbor/internal/agent/folder"
)

// at gives the folder of a change. It is opened once for a transaction: all
// that is done to the target is done in one and the same folder, wherever its
// path leads by then. missing says whether one that is missing is made.
func (e *Engine) at(j *journal, c *change, missing bool) (*folder.Folder, error) {
	path := filepath.Dir(c.To)
	if f := j.open[path]; f != nil {
		return f, nil
	}
	f, err := e.folder(c.To, missing)
	if err != nil {
		return nil, err
	}
	if j.open == nil {
		j.open = map[string]*folder.Folder{}
	}
	j.open[path] = f
	return f, nil
}

// close gives the folders of a transaction back.
func (j *journal) close() {
	for _, f := range j.open {
		_ = f.Close()
	}
	j.open = nil
}

func (c *change) name() string   { return filepath.Base(c.To) }
func (c *change) staged() string { return filepath.Base(c.Staged) }
func (c *change) former() string { return filepath.Base(c.Former) }

// undo does something to every change of a transaction, the last first, and
// syncs the folders. What a folder's owner prevents, who is another user, is
// logged and left: that user may spoil the own folder and nothing else. Trouble
// in a folder of the agent's own ends it; the next start tries again.
func (e *Engine) undo(j *journal, do func(*folder.Folder, *change) error) error {
	for _, s := range slices.Backward(j.Steps) {
		for i := range s.Files {
			c := &s.Files[i]
			f, err := e.at(j, c, false)
			if err == nil {
				if err = do(f, c); err == nil {
					continue
				}
			}
			if f == nil && errors.Is(err, fs.ErrNotExist) {
				continue // staging did not get as far as this folder, or it was taken away
			}
			if f == nil && !folder.Gone(err) || f != nil && !f.Foreign() {
				return fmt.Errorf("item %q: %w", s.ItemID, err)
			}
			e.Log.Warn("a folder of another user does not let an installation be ended", "path", c.To, "cause", err)
			c.Left = err.Error()
		}
	}
	return j.sync()
}

// sync makes what was done in the open folders durable.
func (j *journal) sync() error {
	var errs []error
	for _, f := range j.open {
		if err := f.Sync(); !f.Foreign() {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
