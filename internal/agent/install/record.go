package install

import "time"

const (
	firstItemRetry = 30 * time.Second
	lastItemRetry  = time.Hour
)

// fail notes a failure at now and when to try again.
func (s *ItemState) fail(reason, goal string, now time.Time) {
	s.Status, s.Error, s.Wanted = StatusFailed, reason, goal
	s.Failures++
	wait := lastItemRetry
	if s.Failures < 8 {
		wait = min(lastItemRetry, firstItemRetry<<(s.Failures-1))
	}
	s.RetryAtMS = now.Add(wait).UnixMilli()
}

// recordSuccess takes over the outcomes of a finished transaction.
func (e *Engine) recordSuccess(j *journal) error {
	now := e.Clock.Now()
	for _, s := range j.Steps {
		outcome := s.Outcome
		outcome.Status, outcome.InstalledAtMS = StatusOK, now.UnixMilli()
		if s.Failed != "" {
			former := e.state.item(s.ItemID)
			outcome.Done, outcome.Failures = former.Done, former.Failures
			outcome.fail(s.Failed, j.Goal, now)
		}
		e.state.Items[s.ItemID] = &outcome
		if len(s.Files) > 0 || s.Failed != "" {
			e.state.report(reportOf(s.ItemID, &outcome, now))
		}
	}
	if j.Script != "" && j.changesFiles() {
		e.state.Script, e.state.ScriptState = j.Script, nil
	}
	return e.save()
}

// recordFailure notes for every item whose files were restored, and for the
// one that failed, why. The items keep what they remember of the former files.
func (e *Engine) recordFailure(j *journal) error {
	now := e.Clock.Now()
	for i, s := range j.Steps {
		if i != j.FailedAt && len(s.Files) == 0 {
			continue
		}
		st := e.state.item(s.ItemID)
		st.Type, st.Ref = s.Outcome.Type, s.Outcome.Ref
		reason := j.Error
		if i != j.FailedAt {
			reason = "the former files were restored because item \"" + j.Steps[j.FailedAt].ItemID + "\" failed: " + j.Error
		}
		st.fail(reason, j.Goal, now)
		r := reportOf(s.ItemID, st, now)
		r.Serial = s.Outcome.Serial // that could not be installed
		e.state.report(r)
	}
	if err := e.save(); err != nil {
		return err
	}
	return e.dropJournal()
}

func reportOf(id string, s *ItemState, now time.Time) Report {
	r := Report{ItemID: id, Serial: s.Serial, Status: s.Status, Error: s.Error, TSMS: now.UnixMilli()}
	if s.Ref.Kind == "cert" {
		r.CertID = s.Ref.ID
	}
	return r
}
