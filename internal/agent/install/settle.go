package install

import (
	"reflect"
	"time"
)

// settle records the items that took no part in the journal and gives the
// results of all.
func (e *Engine) settle(members []int, all map[int]*view, j *journal) ([]Result, error) {
	took := map[string]*step{}
	for _, s := range j.Steps {
		took[s.ItemID] = s
	}
	now := e.Clock.Now()
	changed := false
	var results []Result
	for _, i := range members {
		v := all[i]
		s := took[v.item.ID]
		if s == nil {
			changed = e.note(v, j.Goal, now) || changed
		}
		st := e.state.item(v.item.ID)
		r := Result{ItemID: v.item.ID, Status: st.Status, Error: st.Error, Changed: s != nil && st.Status == StatusOK}
		if r.Status == "" {
			r.Status = StatusBlocked
		}
		results = append(results, r)
	}
	if !changed {
		return results, nil
	}
	return results, e.save()
}

// note updates what is remembered of an item that had nothing to do, could not
// or may not, and says whether anything is new.
func (e *Engine) note(v *view, want string, now time.Time) bool {
	former := e.state.Items[v.item.ID]
	next := *v.state
	next.Type, next.Ref = v.item.Type, v.item.ref()
	switch {
	case v.err != nil && v.waiting:
		next.Status, next.Error = StatusWaiting, v.err.Error()
	case v.err != nil:
		next.fail(v.err.Error(), want, now)
	case v.blocked:
		next.Status, next.Error = StatusBlocked, "an item this one belongs with is not ready"
	default:
		next.Status, next.Error, next.Failures, next.RetryAtMS, next.Wanted = StatusOK, "", 0, 0, ""
		next.Files, next.Serial, next.NotAfterMS = v.files, v.serial, v.expires
	}
	if former != nil && reflect.DeepEqual(*former, next) {
		return false
	}
	e.state.Items[v.item.ID] = &next
	if next.Status == StatusFailed && (former == nil || former.Status != next.Status || former.Error != next.Error) {
		e.state.report(reportOf(v.item.ID, &next, now))
		e.Log.Warn("item failed", "item", v.item.ID, "cause", next.Error)
	}
	return true
}
