package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/durable"
)

// commit carries out the steps of a journal that says so, from Next on. Every
// step may be done twice. On a failure it restores.
func (e *Engine) commit(ctx context.Context, j *journal) error {
	for i := j.Next; i < len(j.Steps); i++ {
		s := j.Steps[i]
		if err := e.put(s); err != nil {
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
func (e *Engine) put(s *step) error {
	folders := map[string]bool{}
	for _, c := range s.Files {
		err := os.Rename(c.Staged, c.To)
		if errors.Is(err, fs.ErrNotExist) {
			// It was put in place before a kill. If not, nothing may go on.
			if sum, sumErr := e.sumOf(c.To); sumErr != nil || sum != c.SHA256 {
				return fmt.Errorf("put file in place: neither the new content nor its staged file is there: %w", err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("put file in place: %w", err)
		}
		e.crash("renamed-file")
		folders[filepath.Dir(c.To)] = true
	}
	return syncAll(folders)
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
	first := -1 // step that was the first to change files
	folders := map[string]bool{}
	for i, s := range slices.Backward(j.Steps) {
		for _, c := range s.Files {
			if err := e.putBack(c); err != nil {
				return fmt.Errorf("restore the former files of item %q (it will be tried again at the next start): %w", s.ItemID, err)
			}
			folders[filepath.Dir(c.To)] = true
			first = i
		}
	}
	if err := syncAll(folders); err != nil {
		return err
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

func (e *Engine) putBack(c change) error {
	if c.HadOne {
		if _, err := os.Lstat(c.Former); err == nil {
			if err := os.Rename(c.Former, c.To); err != nil {
				return err
			}
			e.crash("put-back-file")
		}
		// rename(2) does nothing when both names are one file already.
		return errors.Join(durable.Remove(c.Former), durable.Remove(c.Staged))
	}
	if _, err := os.Lstat(c.Staged); err == nil {
		return durable.Remove(c.Staged) // it never got into place
	}
	return durable.Remove(c.To)
}

// finish keeps the former files as .previous and records the outcome. It may
// be begun again after a kill.
func (e *Engine) finish(j *journal) error {
	e.crash("finishing")
	folders := map[string]bool{}
	for _, s := range j.Steps {
		for _, c := range s.Files {
			if !c.HadOne {
				continue
			}
			if err := os.Rename(c.Former, c.To+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				// A missing .previous is no reason to undo a service that runs.
				e.Log.Warn("previous version could not be kept", "path", c.To, "cause", err)
				if err := durable.Remove(c.Former); err != nil {
					return err
				}
			}
			e.crash("kept-previous")
			folders[filepath.Dir(c.To)] = true
		}
	}
	if err := syncAll(folders); err != nil {
		return err
	}
	if err := e.recordSuccess(j); err != nil {
		return err
	}
	e.crash("recorded")
	return e.dropJournal()
}
