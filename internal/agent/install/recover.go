package install

import (
	"context"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/agent/statedir"
)

// Recover ends what an earlier process left undone: a transaction that was
// under way, and an after_update_script that was due. It needs no server. Call
// it once, under the state folder's lock, before anything else.
func (e *Engine) Recover(ctx context.Context) error {
	if err := e.resume(ctx); err != nil {
		return err
	}
	_, err := e.runScript(ctx, false)
	return err
}

// resume ends the transaction that stands in the journal, if any.
func (e *Engine) resume(ctx context.Context) error {
	if err := e.load(); err != nil {
		return err
	}
	var j journal
	found, err := e.State.Read(journalName, &j)
	if errors.Is(err, statedir.ErrDamaged) {
		return e.forgetDone()
	}
	if err != nil {
		return err
	}
	if found {
		if err := e.takeUp(ctx, &j); err != nil {
			return fmt.Errorf("end the interrupted installation: %w", err)
		}
	}
	return nil
}

func (e *Engine) takeUp(ctx context.Context, j *journal) error {
	e.Log.InfoContext(ctx, "taking up an interrupted installation", "phase", j.Phase)
	defer j.close()
	switch j.Phase {
	case phaseStaging:
		if err := e.unstage(j); err != nil {
			return err
		}
		return e.dropJournal()
	case phaseCommitting:
		j.Starts++
		if err := e.saveJournal(j); err != nil {
			return err
		}
		if j.Starts > maxStarts {
			return e.restore(ctx, j, j.next(), fmt.Errorf("the agent was stopped %d times while this ran", j.Starts))
		}
		return e.commit(ctx, j)
	case phaseRestoring:
		return e.restoring(ctx, j)
	case phaseFinishing:
		return e.finish(j)
	}
	return fmt.Errorf("journal.json has the unknown phase %q: it was written by another version of the agent", j.Phase)
}

// next gives the step that was under way.
func (j *journal) next() int {
	for i := j.Next; i < len(j.Steps); i++ {
		if j.Steps[i].Process != nil {
			return i
		}
	}
	return len(j.Steps) - 1
}

// forgetDone makes every command due: a journal that cannot be read may have
// held a reload.
func (e *Engine) forgetDone() error {
	e.Log.Error("the installation journal is damaged: every file is compared and every command runs again")
	if err := e.State.SetAside(journalName); err != nil {
		return err
	}
	for _, s := range e.state.Items {
		s.Done = ""
	}
	return e.save()
}
