package issuance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// calendar is the job engine of a simulation: it keeps which attempt is to run
// when, on the simulated clock.
type calendar struct {
	w   *world
	mu  sync.Mutex
	due map[int64]time.Time
}

// Insert implements Inserter.
func (c *calendar) Insert(_ context.Context, tx *sqldb.Tx, args jobs.Args, _ jobs.Options) error {
	id := args.(runArgs).IssuanceID
	tx.AfterCommit(func() { c.put(id, c.w.time()) })
	return nil
}

func (c *calendar) put(id int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[id] = at
}

// take gives the attempt that is due first, and forgets it when that is before
// the limit.
func (c *calendar) take(limit time.Time) (first int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.due {
		if first == 0 || t.Before(at) || t.Equal(at) && id < first {
			first, at = id, t
		}
	}
	if first == 0 || !at.Before(limit) {
		return 0, limit
	}
	delete(c.due, first)
	return first, at
}

// year is a simulation: one process, its database, its authority and the clock.
type year struct {
	*world
	*weather
	n        *node
	jobs     *calendar
	clock    time.Time
	attempts int
}

func newYear(t *testing.T) *year {
	w, ca := hostileWorld(t, dbtest.SQLite(t))
	if _, err := w.db.Writer().ExecContext(t.Context(), "PRAGMA synchronous = OFF"); err != nil { // no power is lost here
		t.Fatal(err)
	}
	y := &year{world: w, jobs: &calendar{w: w, due: map[int64]time.Time{}}, clock: time.Now().Truncate(sweepEvery)}
	w.now = func() time.Time { return y.clock }
	w.options.Now = w.time
	ca.Clock(w.time)
	y.weather = &weather{w: w, ca: ca, start: y.clock, random: rand.New(rand.NewPCG(1, 2)), sets: map[string][]time.Time{}}
	w.change = func(s *Service) {
		s.backoff = backoff
		s.sleep = func(_ context.Context, d time.Duration) error {
			y.set(y.time().Add(d))
			return nil
		}
	}
	y.n = w.quiet()
	y.n.UseJobs(y.jobs)
	return y
}

func (y *year) set(now time.Time) {
	y.world.mu.Lock()
	defer y.world.mu.Unlock()
	if now.After(y.clock) {
		y.clock = now
	}
}

// until lets the time pass: attempts run when they are due and sweeps when they
// find something, at whole multiples of their interval as if each took place.
func (y *year) until(end time.Time) {
	y.t.Helper()
	swept := y.time()
	for {
		first, lasts := y.horizon()
		if now := y.time(); !now.Before(lasts) {
			y.t.Fatalf("a certificate expired on day %d", now.Sub(y.weather.start)/day)
		}
		sweep := swept.Add(sweepEvery)
		if first.After(sweep) {
			sweep = first.Truncate(sweepEvery).Add(sweepEvery)
		}
		sweep = swept.Add(min(sweep.Sub(swept), day))
		id, at := y.jobs.take(sweep)
		if at.After(end) {
			y.set(end)
			return
		}
		y.set(at)
		if id == 0 {
			swept = at
			if err := y.n.sweep(y.t.Context()); err != nil {
				y.t.Fatal(err)
			}
			continue
		}
		y.run(id)
	}
}

// run lets the service work on an attempt and puts it back when that has to
// wait.
func (y *year) run(id int64) {
	y.t.Helper()
	y.attempts++
	_ = y.n.run(y.t.Context(), id) // a wish to be called again, which the row says too
	row, err := New(y.db.Reader()).issuanceByID(y.t.Context(), id)
	if err != nil {
		y.t.Fatal(err)
	}
	if open(row.Status) {
		y.jobs.put(id, time.UnixMilli(max(row.DueAt, y.time().UnixMilli()+1)))
	}
}

// horizon gives when the next renewal is due and when the first leaf expires.
func (y *year) horizon() (renewal, expiry time.Time) {
	y.t.Helper()
	var next, last int64
	err := y.db.Reader().QueryRowContext(y.t.Context(), `SELECT COALESCE(MIN(next_renewal_at), 0), COALESCE(MIN(not_after), 0)
		FROM certificates WHERE not_after > 0`).Scan(&next, &last)
	if err != nil {
		y.t.Fatal(err)
	}
	if last == 0 {
		return y.time().Add(time.Hour), y.time().Add(time.Hour)
	}
	return time.UnixMilli(next), time.UnixMilli(last)
}

// A year of outages: the authority is away for three days whenever most renewals
// are due, busy in between and has a limit of its own on orders. Nothing expires, no set of names is
// ordered more than three times in a day, and what was issued in one day does
// not renew in one minute (threats.md section 3, "No expiry in CA outages").
//
// The authority is a real server of RFC 8555 on the simulated clock; only the
// job engine, whose clock is the system's, is replaced by calendar. With
// CERTHARBOR_TEST_CERTIFICATES=1000 it has the size that threats.md asks for.
func TestYearOfOutages(t *testing.T) {
	t.Parallel()
	certificates := 40
	if text := os.Getenv("CERTHARBOR_TEST_CERTIFICATES"); text != "" {
		var err error
		if certificates, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	y := newYear(t)
	y.limit = max(certificates/3, 10)
	for i := range certificates {
		cert := y.n.addCert(fmt.Sprintf("n%d.example.test", i))
		y.n.trigger(cert, "")
		y.until(y.time().Add(day / time.Duration(certificates)))
	}
	y.begin()
	y.until(y.weather.start.Add(150 * day))
	y.ca.Lifetime(47 * day)
	y.until(y.weather.start.Add(365 * day))
	renewals := y.count("SELECT COUNT(*) FROM issuances WHERE cause = 'renewal' AND status = 'SUCCESS'")
	t.Logf("%d certificates, %d renewals, %d attempts taken up, %d requests in outages, %d busy answers, at most %d orders in a minute",
		certificates, renewals, y.attempts, y.lost, y.busy, most(y.times, time.Minute))
	if renewals < 4*certificates {
		t.Errorf("%d renewals of %d certificates", renewals, certificates)
	}
	for set, times := range y.sets {
		if n := most(times, limitTime); n > maxOrders {
			t.Errorf("%d orders for %s in 24 hours", n, set)
		}
	}
	if n := most(y.times, time.Minute); n > 3+certificates/10 {
		t.Errorf("%d orders in one minute", n)
	}
	if n := y.count("SELECT COUNT(*) FROM issuances WHERE status IN ('PENDING', 'PROCESSING') AND due_at < $1", y.time().Add(-time.Hour).UnixMilli()); n > 0 {
		t.Errorf("%d attempts are stuck", n)
	}
}
