package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/agent/folder"
)

// commit carries out the steps of a journal that says so, from Next on. Every
// step may be done twice. On a failure it restores.
func (e *Engine) commit(ctx context.Context, j *journal) error {
	for i := j.Next; i < len(j.Steps); i++ {
		s := j.Steps[i]
		if err := e.put(j, s); err != nil {
			return e.restore(ctx, j, i, err)
		}
		if s.Process == nil {
			continue
		}
		e.crash("before-command")
		err := e.command(ctx, s)
		e.crash("after-command")
		if err != nil && !s.ContinueOnError {
			return e.restore(ctx, j, i, err)
		}
		if err != nil {
			s.Failed = err.Error()
		}
		j.Next = i + 1
		if err := e.saveJournal(j); err != nil {
			return err
		}
	}
	if i, err := e.checkServices(ctx, j); err != nil {
		return e.restore(ctx, j, i, err)
	}
	j.Phase = phaseFinishing
	if err := e.saveJournal(j); err != nil {
		return err
	}
	return e.finish(j)
}

// put renames the staged files of a step into place.
func (e *Engine) put(j *journal, s *step) error {
	for i := range s.Files {
		c := &s.Files[i]
		f, err := e.at(j, c, false)
		if err != nil {
			return fmt.Errorf("put file in place: %w", err)
		}
		err = f.Rename(c.staged(), c.name())
		if errors.Is(err, fs.ErrNotExist) {
			// It was put in place before a kill. If not, nothing may go on.
			if sum, sumErr := sumIn(f, c.name()); sumErr != nil || sum != c.SHA256 {
				return fmt.Errorf("put file in place: neither the new content nor its staged file is there: %w", err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("put file in place: %w", err)
		}
		e.crash("renamed-file")
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) command(ctx context.Context, s *step) error {
	e.Log.InfoContext(ctx, "running command", "item", s.ItemID)
	if err := e.run(ctx, *s.Process); err != nil {
		return err
	}
	return e.check1(ctx, s)
}

// checkServices makes the handshakes that copies ask for: after all commands.
func (e *Engine) checkServices(ctx context.Context, j *journal) (int, error) {
	for i, s := range j.Steps {
		if s.Process != nil {
			continue
		}
		if err := e.check1(ctx, s); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (e *Engine) check1(ctx context.Context, s *step) error {
	if s.Check == nil {
		return nil
	}
	limit := verifyDefault
	if s.CheckMS > 0 {
		limit = time.Duration(s.CheckMS) * time.Millisecond
	}
	return e.verify(ctx, *s.Check, s.Serials, limit)
}

// restore puts the former files back because step failed with cause.
func (e *Engine) restore(ctx context.Context, j *journal, failed int, cause error) error {
	j.Phase, j.FailedAt, j.Error = phaseRestoring, failed, cause.Error()
	// When even this cannot be stored, restoring still beats leaving files that
	// a service refuses; the next start would try them once more.
	saveErr := e.saveJournal(j)
	return errors.Join(saveErr, e.restoring(ctx, j))
}

// restoring may be begun again after a kill at any point of it.
func (e *Engine) restoring(ctx context.Context, j *journal) error {
	e.crash("restoring")
	if err := e.undo(j, e.putBack); err != nil {
		return fmt.Errorf("restore the former files (it will be tried again at the next start): %w", err)
	}
	first := -1 // step that was the first to change files
	for i, s := range slices.Backward(j.Steps) {
		for _, c := range s.Files {
			first = i
			if c.Left != "" {
				j.Error += fmt.Sprintf("; %s could not be restored: %s", c.To, c.Left)
			}
		}
	}
	for i, s := range j.Steps {
		if s.Process == nil || first < 0 || i < first || i > j.lastRun() {
			continue
		}
		e.crash("before-command-again")
		if err := e.run(ctx, *s.Process); err != nil {
			j.Error += fmt.Sprintf("; after the former files were restored, %q failed again: %v", s.ItemID, err)
		}
	}
	e.crash("restored")
	return e.recordFailure(j)
}

// lastRun gives the last step whose command may have run.
func (j *journal) lastRun() int {
	if j.Steps[j.FailedAt].Process == nil && j.Steps[j.FailedAt].Check != nil {
		return len(j.Steps) - 1 // a copy's handshake comes after all commands
	}
	return j.FailedAt
}

func (e *Engine) putBack(f *folder.Folder, c *change) error {
	if c.HadOne {
		if _, err := f.Stat(c.former()); err == nil {
			if err := f.Rename(c.former(), c.name()); err != nil {
				return err
			}
			e.crash("put-back-file")
		}
		// rename(2) does nothing when both names are one file already.
		return errors.Join(f.Remove(c.former()), f.Remove(c.staged()))
	}
	if _, err := f.Stat(c.staged()); err == nil {
		return f.Remove(c.staged()) // it never got into place
	}
	return f.Remove(c.name())
}

// finish keeps the former files as .previous and records the outcome. It may
// be begun again after a kill.
func (e *Engine) finish(j *journal) error {
	e.crash("finishing")
	if err := e.undo(j, e.keepPrevious); err != nil {
		return err
	}
	if err := e.recordSuccess(j); err != nil {
		return err
	}
	e.crash("recorded")
	return e.dropJournal()
}

func (e *Engine) keepPrevious(f *folder.Folder, c *change) error {
	if !c.HadOne {
		return nil
	}
	if err := f.Rename(c.former(), c.name()+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// A missing .previous is no reason to undo a service that runs.
		e.Log.Warn("previous version could not be kept", "path", c.To, "cause", err)
		if err := f.Remove(c.former()); err != nil {
			return err
		}
	}
	e.crash("kept-previous")
	return nil
}
