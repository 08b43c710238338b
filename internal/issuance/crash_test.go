package issuance

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// moments are all at which a process may die: before each step, and between
// what the CA answered and its being saved.
func moments() []string {
	var all []string
	for _, step := range []string{stepPrepare, stepAccount, stepOrder, stepAuthorize, stepValidate, stepFinalize, stepDownload} {
		if step != stepPrepare { // the claim takes it along
			all = append(all, step)
		}
		all = append(all, "save "+step)
	}
	return all
}

// A process that dies leaves its lease and its memory behind. The next one
// goes on with the same order.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, moment := range moments() {
			t.Run(moment, func(t *testing.T) {
				w, ca := hostileWorld(t, db)
				first := w.quiet()
				var reached atomic.Bool
				first.reached = func(_ context.Context, step string) {
					if step == moment {
						reached.Store(true)
						runtime.Goexit() // nothing after this happens
					}
				}
				i := first.trigger(first.addCert("a.example.test", "b.example.test"), "")
				var group sync.WaitGroup
				group.Go(func() { _ = first.run(t.Context(), i.ID) })
				group.Wait()
				if !reached.Load() {
					t.Fatal("the moment did not come")
				}
				if db.Dialect() == sqldb.Postgres { // elsewhere a lease has to end
					began := w.time()
					w.mu.Lock()
					w.now = func() time.Time { return began.Add(leaseTime + time.Second) }
					w.mu.Unlock()
				}
				second := w.start()
				w.done(second, ca, second.ended(i))
				want := 1
				if moment == "save "+stepOrder {
					want = 2 // the one answer that only a process knew
				}
				if ca.Orders() != want {
					t.Errorf("%d orders, want %d", ca.Orders(), want)
				}
				second.stop()
			})
		}
	})
}

// A process that is stopped gives its attempts back, so that another node goes
// on at once.
func TestStoppedAtAnyStep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, moment := range moments() {
			if strings.HasPrefix(moment, "save ") {
				continue // a save is not interrupted
			}
			t.Run(moment, func(t *testing.T) {
				w, ca := hostileWorld(t, db)
				there := make(chan struct{}, 1)
				w.change = func(s *Service) {
					s.reached = func(ctx context.Context, step string) {
						if step == moment {
							there <- struct{}{}
							<-ctx.Done()
						}
					}
				}
				first := w.start()
				i := first.trigger(first.addCert("a.example.test", "b.example.test"), "")
				<-there
				first.stop()
				w.change = func(*Service) {}
				second := w.start()
				w.done(second, ca, second.ended(i))
				if ca.Orders() != 1 {
					t.Errorf("%d orders, want 1", ca.Orders())
				}
				second.stop()
			})
		}
	})
}

// Every commit may seem to fail although it succeeded.
func TestCommitsThatAreNotConfirmed(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var commits, lost atomic.Int64 // the lost-th commit from now on is not confirmed
			c := config(t)
			c.CommitFault = func() bool { return commits.Add(1) == lost.Load() }
			db := dbtest.Open(t, c)
			for nth := int64(1); ; nth++ {
				w, ca := hostileWorld(t, db)
				n := w.quiet()
				certID := n.addCert("a.example.test")
				i := n.trigger(certID, "")
				commits.Store(0)
				lost.Store(nth)
				if err := n.run(t.Context(), i.ID); err != nil {
					t.Errorf("commit %d: %v", nth, err)
				}
				lost.Store(0)
				w.done(n, ca, n.issue(certID, i.ID))
				if ca.Orders() != 1 {
					t.Errorf("commit %d: %d orders, want 1", nth, ca.Orders())
				}
				if commits.Load() < nth {
					if nth < 6 {
						t.Errorf("only %d commits", commits.Load())
					}
					break
				}
			}
		})
	}
}

// A database that refuses a save for a while does not cost an order.
func TestSavesThatFail(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	w, ca := hostileWorld(t, db)
	n := w.quiet()
	execute := func(statement string) {
		if _, err := db.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	waits := 0
	n.sleep = func(context.Context, time.Duration) error {
		if waits++; waits == 3 {
			execute("DROP TRIGGER full_disk")
		}
		return nil
	}
	i := n.trigger(n.addCert("a.example.test"), "")
	execute("CREATE TRIGGER full_disk BEFORE INSERT ON issuance_orders BEGIN SELECT RAISE(ABORT, 'no'); END")
	w.done(n, ca, n.finished(i))
	if ca.Orders() != 1 || waits < 3 {
		t.Errorf("%d orders after %d waits, want 1 after 3", ca.Orders(), waits)
	}
}

// Every request's answer may be lost, and every request.
func TestLostCalls(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]outbound.Fault{"answer": outbound.LoseAnswer, "request": outbound.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.SQLite(t)
			for nth := int64(1); ; nth++ {
				w, ca := hostileWorld(t, db)
				var calls atomic.Int64
				var ordered atomic.Bool
				w.options.Fault = func(r *http.Request) outbound.Fault {
					if calls.Add(1) != nth {
						return outbound.NoFault
					}
					ordered.Store(strings.HasPrefix(r.URL.Path, "/"+string(hostile.NewOrder)))
					return fault
				}
				n := w.quiet()
				w.done(n, ca, n.finished(n.trigger(n.addCert("a.example.test"), "")))
				want := 1
				if ordered.Load() && fault == outbound.LoseAnswer {
					want = 2
				}
				if ca.Orders() != want {
					t.Errorf("call %d: %d orders, want %d", nth, ca.Orders(), want)
				}
				if calls.Load() < nth {
					break
				}
			}
		})
	}
}

// While a worker has the lease, no other node calls the CA.
func TestLease(t *testing.T) {
	t.Parallel()
	w, ca := hostileWorld(t, dbtest.Open(t, dbtest.PostgresConfig(t)))
	first, second := w.quiet(), w.quiet()
	i := first.trigger(first.addCert("a.example.test"), "")
	first.reached = func(_ context.Context, step string) {
		if step != stepOrder {
			return
		}
		if err := second.run(t.Context(), i.ID); err == nil || !strings.Contains(err.Error(), "Snooze") {
			t.Errorf("the second worker did not wait: %v", err)
		}
		if again := first.run(t.Context(), i.ID); again != nil {
			t.Errorf("a second job of the same process: %v", again)
		}
	}
	w.done(first, ca, first.finished(i))
	if got := second.issue(i.CertRecordID, i.ID); ca.Orders() != 1 || len(got.Log) != 8 {
		t.Errorf("%d orders, %+v", ca.Orders(), got)
	}
}

// A worker that was away for longer than its lease finds its attempt in other
// hands and stops.
func TestOvertakenWorkerStops(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, step := range []string{stepAccount, stepAuthorize, stepValidate, stepFinalize, stepDownload} {
			t.Run(step, func(t *testing.T) {
				w, ca := hostileWorld(t, db)
				slow, quick := w.quiet(), w.quiet()
				i := slow.trigger(slow.addCert("a.example.test"), "")
				quick.reached = func(_ context.Context, at string) {
					if !strings.HasPrefix(at, "save ") {
						runtime.Goexit() // it has claimed the attempt, and dies
					}
				}
				slow.reached = func(_ context.Context, at string) {
					if at != "save "+step {
						return
					}
					w.at(w.time().Add(leaseTime + time.Second))
					var group sync.WaitGroup
					group.Go(func() { _ = quick.run(t.Context(), i.ID) })
					group.Wait()
				}
				if err := slow.run(t.Context(), i.ID); err != nil {
					t.Error(err)
				}
				if w.count("SELECT COUNT(*) FROM issuances WHERE id = $1 AND holder = $2", i.ID, quick.node) != 1 {
					t.Error("the slow worker saved over the quick one")
				}
				w.at(w.time().Add(leaseTime + time.Second))
				last := w.quiet()
				w.done(last, ca, last.finished(i))
				if ca.Orders() != 1 {
					t.Errorf("%d orders, want 1", ca.Orders())
				}
			})
		}
	})
}

// What the job engine lost is found by the sweep.
func TestStuckAttemptIsTakenUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		ca.Always(hostile.NewOrder, hostile.Broken())
		dead := w.quiet()
		dead.backoff = func(int64, *acme.Problem) time.Duration { return 2 * time.Second }
		waiting, pending := dead.trigger(dead.addCert("a.example.test"), ""), dead.trigger(dead.addCert("b.example.test"), "")
		if err := dead.run(t.Context(), waiting.ID); err == nil {
			t.Fatal("the job should have been put back")
		}
		if _, err := db.Writer().ExecContext(t.Context(), "DELETE FROM river_job"); err != nil {
			t.Fatal(err)
		}
		ca.Always(hostile.NewOrder, nil)
		began := w.time()
		w.mu.Lock()
		w.now = func() time.Time { return began.Add(overdueAfter + 5*time.Second) }
		w.mu.Unlock()
		n := w.start() // sweeps when it starts
		for _, i := range []Issuance{waiting, pending} {
			if got := n.ended(i); got.Status != StatusSuccess {
				t.Errorf("%+v", got)
			}
		}
		w.clean()
	})
}
