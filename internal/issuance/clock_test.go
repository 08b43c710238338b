package issuance

import (
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &clock{settle: settle}
	for i, step := range []struct {
		by            time.Duration
		stray, steady bool
	}{
		{0, true, true}, {sweepEvery, false, true}, {time.Hour, false, true}, {-time.Hour, true, true},
		{400 * day, false, false}, {sweepEvery, false, false}, {settle, false, true}, {-400 * day, true, true},
		{400 * day, false, false}, {-400 * day, true, true}, {sweepEvery, false, true},
	} {
		now = now.Add(step.by)
		if stray, steady := c.look(now); stray != step.stray || steady != step.steady {
			t.Errorf("%d, %s: stray %v, steady %v", i, step.by, stray, steady)
		}
	}
}

// What a wrong clock has put off for more than a year is done in time when the
// clock is right again.
func TestClockThatComesBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		began := time.Now()
		w.at(began)
		n := w.quiet()
		failed, open := n.addCert("failed.example.test"), n.addCert("open.example.test")
		for _, id := range []int64{failed, open} {
			if err := n.run(t.Context(), n.trigger(id, "").ID); err != nil {
				t.Fatal(err)
			}
		}
		planned := n.cert(failed).NextRenewalAt
		n.sweepAll()

		w.at(began.Add(400 * day)) // renewals begin, fail and are put off
		ca.Always(hostile.NewOrder, hostile.Problem(403, "rejectedIdentifier", "not today"))
		if got := n.sweepAll(); len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		ca.Always(hostile.NewOrder, hostile.Broken())
		i := n.trigger(open, `{"force":true}`)
		n.backoff = backoff
		_ = n.run(t.Context(), i.ID)

		w.at(began.Add(time.Minute))
		ca.Always(hostile.NewOrder, nil)
		n.sweepAll()
		if got := n.cert(failed).NextRenewalAt; got != planned {
			t.Errorf("the renewal is planned for %v, was for %v", time.UnixMilli(got), time.UnixMilli(planned))
		}
		if err := n.run(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
		if i = n.issue(open, i.ID); i.Status != StatusSuccess {
			t.Errorf("%+v", i)
		}
	})
}
