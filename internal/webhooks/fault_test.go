package webhooks

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// eachFaulty is dbtest.Each on databases whose commits, while on is set, often
// succeed without saying so.
func eachFaulty(t *testing.T, test func(t *testing.T, db *sqldb.DB, on *atomic.Bool)) {
	t.Helper()
	for name, config := range map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := &atomic.Bool{}
			c := config(t)
			c.CommitFault = func() bool { return on.Load() && rand.IntN(3) == 0 }
			test(t, dbtest.Open(t, c), on)
		})
	}
}

// checkDelivered requires every issue of [1, n] at least once, under one
// delivery id each.
func checkDelivered(t *testing.T, got []request, n int) (attempts int) {
	t.Helper()
	ids := map[string]string{}
	for _, r := range got {
		issue, id := r.header.Get("X-BB-Issue-History-Id"), r.header.Get("X-BB-Delivery-Id")
		if first, ok := ids[issue]; ok && first != id {
			t.Errorf("issue %s came as delivery %s and %s", issue, first, id)
		}
		ids[issue] = id
	}
	for i := 1; i <= n; i++ {
		if ids[strconv.Itoa(i)] == "" {
			t.Errorf("issue %d never came", i)
		}
	}
	return len(got)
}

func TestUnconfirmedCommits(t *testing.T) {
	eachFaulty(t, func(t *testing.T, db *sqldb.DB, on *atomic.Bool) {
		f := newFixture(t, db)
		rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			w.WriteHeader(map[bool]int{true: 503, false: 204}[n%7 == 0])
		})
		w := f.hook(rec.URL, nil)
		on.Store(true)
		const n = 60
		failures := 0
		for i := int64(1); i <= n; i++ {
			f.issued(i%5+1, i)
			if i%10 == 0 {
				failures += len(f.settleJobs())
			}
		}
		for range 20 {
			failures += len(f.settleJobs())
			f.clock.Advance(time.Minute)
		}
		on.Store(false)
		attempts := checkDelivered(t, rec.requests(), n)
		if failures == 0 {
			t.Error("no commit failed; the test shows nothing")
		}
		for _, d := range f.list(w.ID) {
			if d.Status != StatusSuccess {
				t.Errorf("%+v", d)
			}
		}
		t.Logf("%d attempts for %d events, %d failed jobs", attempts, n, failures)
	})
}

// Answers that are lost after the receiver acted lead to attempts under the
// same delivery id.
func TestLostAnswers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var lost atomic.Int64
		f := newFixture(t, db, func(d *Deps) {
			d.Outbound.Fault = func(*http.Request) outbound.Fault {
				switch rand.IntN(4) {
				case 0:
					lost.Add(1)
					return outbound.LoseAnswer
				case 1:
					lost.Add(1)
					return outbound.LoseRequest
				}
				return outbound.NoFault
			}
		})
		rec := newReceiver(t, nil)
		w := f.hook(rec.URL, nil)
		const n = 40
		for i := int64(1); i <= n; i++ {
			f.issued(i%5+1, i)
		}
		for range 200 {
			f.settleJobs()
			f.clock.Advance(time.Hour)
		}
		checkDelivered(t, rec.requests(), n)
		for _, d := range f.list(w.ID) {
			if d.Status != StatusSuccess {
				t.Errorf("%+v", d)
			}
		}
		if lost.Load() == 0 {
			t.Error("nothing was lost; the test shows nothing")
		}
	})
}

// Two nodes that run the same job deliver each event once.
func TestTwoNodes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		other := NewService(f.deps)
		nodes := []*Service{f.Service, other}
		if db.Dialect() == sqldb.SQLite {
			nodes = []*Service{f.Service, f.Service} // one process alone serves it; it may run a job twice
		}
		var mu sync.Mutex
		flying := map[string]int{}
		rec := newReceiver(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			id := r.Header.Get("X-BB-Delivery-Id")
			mu.Lock()
			flying[id]++
			if flying[id] > 1 {
				t.Errorf("delivery %s twice at a time", id)
			}
			mu.Unlock()
			_ = http.NewResponseController(w).Flush()
			mu.Lock()
			flying[id]--
			mu.Unlock()
		})
		for range 3 {
			f.hook(rec.URL, nil)
		}
		const n = 30
		for i := int64(1); i <= n; i++ {
			f.issued(i%7+1, i)
		}
		for list := f.table.due(t, f.clock.Now()); len(list) > 0; list = f.table.due(t, f.clock.Now()) {
			var group sync.WaitGroup
			for _, d := range list {
				var finished atomic.Bool
				var both sync.WaitGroup
				for _, node := range nodes {
					both.Add(1)
					group.Go(func() {
						defer both.Done()
						if node.drain(t.Context(), d) == nil {
							finished.Store(true)
						}
					})
				}
				both.Wait()
				if finished.Load() {
					f.table.done(t, d)
				}
			}
			group.Wait()
		}
		if got := len(rec.requests()); got != 3*n {
			t.Errorf("%d requests, want %d", got, 3*n)
		}
	})
}

// A node that is gone, or hangs beyond its lease, is replaced; what it says
// later is not recorded.
func TestTakeOver(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, dbtest.PostgresConfig(t)), func(d *Deps) { d.Outbound.Timeout = time.Minute })
	other := NewService(f.deps)
	hanging, release := make(chan struct{}), make(chan struct{})
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			close(hanging)
			<-release
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	w := f.hook(rec.URL, nil)
	f.issued(1, 10)
	job := f.table.due(t, f.clock.Now())[0]
	done := make(chan error, 1)
	go func() { done <- f.drain(t.Context(), job) }()
	<-hanging
	if err := other.drain(t.Context(), job); err == nil || len(rec.requests()) != 1 {
		t.Errorf("before the lease ends: error %v, %d requests", err, len(rec.requests()))
	}
	f.clock.Advance(leaseFor)
	if err := other.drain(t.Context(), job); err != nil {
		t.Error(err)
	}
	after := f.one(w.ID)
	if after.Status != StatusPending || after.Attempts != 1 || len(rec.requests()) != 2 {
		t.Errorf("after it: %+v, %d requests", after, len(rec.requests()))
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if d := f.one(w.ID); d != after {
		t.Errorf("the old node changed it: %+v, before %+v", d, after)
	}
}

// A job that the engine lost is planned anew.
func TestSweep(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, nil)
		f.hook(rec.URL, nil)
		f.issued(1, 10)
		execute(t, db, "DELETE FROM test_jobs")
		if err := f.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.settleJobs()
		if n := len(rec.requests()); n != 0 {
			t.Fatalf("%d requests: a job that is not late was replaced", n)
		}
		f.clock.Advance(overdueAfter + time.Second)
		for range 2 { // the second finds nothing
			if err := f.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.table.due(t, f.clock.Now())); n != 1 {
			t.Errorf("%d jobs", n)
		}
		f.settleJobs()
		if n := len(rec.requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// A clock that was a year ahead when a delivery failed leaves its next attempt
// there; once it is set right, the attempt is made.
func TestSweepBringsBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n <= 2 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		const year = 365 * 24 * time.Hour
		w := f.hook(rec.URL, nil)
		f.clock.Advance(year)
		f.issued(1, 10)
		f.issued(2, 20)
		f.settleJobs()
		f.clock.Advance(-year)
		for range 2 { // the second finds nothing
			if err := f.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.table.due(t, f.clock.Now())); n != 1 {
			t.Errorf("%d jobs are due", n)
		}
		f.settleJobs()
		for _, d := range f.list(w.ID) {
			if d.Status != StatusSuccess || d.Attempts != 2 {
				t.Errorf("%+v", d)
			}
		}
	})
}

func TestPrune(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("X-BB-Cert-Id") == "2" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		w := f.hook(rec.URL, nil)
		f.issued(1, 1)
		f.issued(2, 2) // stays pending
		f.settleJobs()
		f.clock.Advance(retention)
		f.issued(3, 3)
		if err := f.prune(t.Context()); err != nil || len(f.list(w.ID)) != 3 {
			t.Errorf("at 30 days: %d left, %v", len(f.list(w.ID)), err)
		}
		f.clock.Advance(time.Second)
		if err := f.prune(t.Context()); err != nil || len(f.list(w.ID)) != 2 {
			t.Errorf("after 30 days: %d left, %v", len(f.list(w.ID)), err)
		}
	})
}

// threats.md scenario 4: nothing of ours ever connects to the canary.
func TestHostileTargets(t *testing.T) {
	canary := newCanary(t)
	var rebound atomic.Bool
	f := newFixture(t, dbtest.SQLite(t), func(d *Deps) {
		d.Outbound = canary.outbound(&rebound)
	})
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]",
		"0.0.0.0", "10.0.0.1", "169.254.169.254", "192.168.1.1", "2130706433", "0x7f.1", "017700000001", "[fd00::1]", "[fe80::1]",
	} {
		_, _, err := f.Create(t.Context(), f.user, Input{URL: "http://" + host + ":" + canary.port + "/", Secret: testSecret})
		if err == nil || !strings.Contains(err.Error(), "url: is not a target") {
			t.Errorf("%s: %v", host, err)
		}
	}
	w := f.hook("http://rebinding.example:"+canary.port+"/", nil)
	f.issued(1, 1) // the name points to the inside by now
	rebound.Store(true)
	f.settleJobs()
	if _, _, err := f.Test(t.Context(), f.user, w.ID); err != nil {
		t.Fatal(err)
	}
	f.settleJobs()
	list := f.list(w.ID)
	if list[0].Event != EventTest || list[0].Status != StatusExhausted || list[1].Status != StatusPending || list[1].Attempts != 1 {
		t.Errorf("%+v", list)
	}
	for _, d := range list {
		if d.LastStatusCode != 0 || !strings.Contains(d.LastError, "not one this server may call") || strings.Contains(d.LastError, "127.0.0.1") {
			t.Errorf("%+v", d)
		}
	}
	if n := canary.connects.Load(); n != 0 {
		t.Errorf("the canary saw %d connects", n)
	}
}

// A server that stops in the middle of an attempt blames nobody: the attempt
// is not counted, what was delivered is recorded, and a job goes on later.
func TestStopInTheMiddle(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db, func(d *Deps) { d.Outbound.Timeout = time.Minute })
		hanging := make(chan struct{})
		var once sync.Once
		end := make(chan struct{})
		defer close(end)
		rec := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("X-BB-Cert-Id") == "1" {
				first := false
				once.Do(func() { first = true; close(hanging) })
				if first {
					waitFor(r, end)
				}
			}
		})
		w := f.hook(rec.URL, nil)
		f.issued(1, 10)
		f.issued(2, 20)
		job := f.table.due(t, f.clock.Now())[0]
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.drain(running, job) }()
		<-hanging
		poll(t, func() bool { return len(issues(rec.requests(), 2)) == 1 })
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.table.done(t, job)
		for _, d := range f.list(w.ID) {
			if d.CertID == 1 && (d.Attempts != 0 || d.Status != StatusPending || d.LastError != "") {
				t.Errorf("the interrupted attempt is recorded: %+v", d)
			}
		}
		f.settleJobs()
		checkSuccess(t, f.list(w.ID), 2)
	})
}

// A new address takes effect at once, also for what is pending.
func TestNewAddress(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		old, next := newReceiver(t, status(503)), newReceiver(t, nil)
		w := f.hook(old.URL, nil)
		f.issued(1, 10)
		f.settleJobs()
		if _, _, err := f.Update(t.Context(), f.user, w.ID, Input{URL: next.URL, Secret: testSecret}); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Minute)
		f.settleJobs()
		checkSuccess(t, f.list(w.ID), 1)
		if len(old.requests()) != 1 || len(next.requests()) != 1 {
			t.Errorf("%d requests at the old address, %d at the new one", len(old.requests()), len(next.requests()))
		}
	})
}

func checkSuccess(t *testing.T, list []Delivery, n int) {
	t.Helper()
	if len(list) != n {
		t.Errorf("%d deliveries, want %d", len(list), n)
	}
	for _, d := range list {
		if d.Status != StatusSuccess {
			t.Errorf("%+v", d)
		}
	}
}
