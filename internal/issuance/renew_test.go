package issuance

import (
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// at sets the clock.
func (w *world) at(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = func() time.Time { return now }
}

// sweepAll sweeps and runs what the sweep has started.
func (n *node) sweepAll() []Issuance {
	n.w.t.Helper()
	if err := n.sweep(n.w.t.Context()); err != nil {
		n.w.t.Fatal(err)
	}
	rows, err := n.w.db.Reader().QueryContext(n.w.t.Context(), "SELECT id, cert_id FROM issuances WHERE status = 'PENDING' ORDER BY id")
	if err != nil {
		n.w.t.Fatal(err)
	}
	defer rows.Close()
	var started []Issuance
	for rows.Next() {
		var i Issuance
		if err := rows.Scan(&i.ID, &i.CertRecordID); err != nil {
			n.w.t.Fatal(err)
		}
		started = append(started, i)
	}
	if err := rows.Err(); err != nil {
		n.w.t.Fatal(err)
	}
	for k, i := range started {
		if err := n.run(n.w.t.Context(), i.ID); err != nil {
			n.w.t.Fatal(err)
		}
		started[k] = n.issue(i.CertRecordID, i.ID)
	}
	return started
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		certID := n.addCert("a.example.test")
		if err := n.run(t.Context(), n.trigger(certID, "").ID); err != nil {
			t.Fatal(err)
		}
		first := n.cert(certID)
		if got := n.sweepAll(); len(got) != 0 {
			t.Fatalf("renewed at once: %+v", got)
		}
		w.at(time.UnixMilli(first.NextRenewalAt - 1))
		if got := n.sweepAll(); len(got) != 0 {
			t.Fatalf("renewed early: %+v", got)
		}

		// The CA refuses: the certificate stays, the wait grows, the rest of the
		// lifetime is never used up.
		ca.Always(hostile.NewOrder, hostile.Problem(403, "rejectedIdentifier", "not today"))
		w.at(time.UnixMilli(first.NextRenewalAt))
		now := first.NextRenewalAt
		var waits []time.Duration
		for range 6 {
			got := n.sweepAll()
			if len(got) != 1 || got[0].Status != StatusFailed || got[0].Trigger != TriggerRenewal {
				t.Fatalf("%+v", got)
			}
			c := n.cert(certID)
			if c.SerialNumber != first.SerialNumber {
				t.Fatal("a failure changed the certificate")
			}
			waits = append(waits, time.Duration(c.NextRenewalAt-now)*time.Millisecond)
			if got := n.sweepAll(); len(got) != 0 {
				t.Fatalf("again without a wait: %+v", got)
			}
			now = c.NextRenewalAt
			w.at(time.UnixMilli(now))
		}
		if waits[0] != time.Hour || waits[1] != 2*time.Hour || waits[5] != longestRetry {
			t.Errorf("waits: %v", waits)
		}

		ca.Always(hostile.NewOrder, nil)
		got := n.sweepAll()
		if len(got) != 1 || got[0].Status != StatusSuccess || w.events(got[0].ID) != 1 {
			t.Fatalf("%+v", got)
		}
		c := n.cert(certID)
		if c.SerialNumber == first.SerialNumber || c.NextRenewalAt < now { // the CA does not know the test's clock
			t.Errorf("%+v", c)
		}
		if got := w.count("SELECT COUNT(*) FROM issuances WHERE id = $1 AND replaces <> ''", got[0].ID); got != 1 {
			t.Error("the predecessor was not named")
		}
	})
}

// A CA that does not know replaces, or the predecessor, gets the order without.
func TestPredecessorThatIsRefused(t *testing.T) {
	t.Parallel()
	w, ca := hostileWorld(t, dbtest.SQLite(t))
	n := w.quiet()
	certID := n.addCert("a.example.test")
	if err := n.run(t.Context(), n.trigger(certID, "").ID); err != nil {
		t.Fatal(err)
	}
	no := hostile.Problem(400, "malformed", "unknown member")
	ca.Next(hostile.NewOrder, no, no)
	i := n.trigger(certID, `{"validity_seconds":86400}`)
	if err := n.run(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if i = n.issue(certID, i.ID); i.Status != StatusSuccess {
		t.Errorf("%+v", i)
	}
}

// A CA that fails whenever the predecessor is named gets the order without it in
// the end, and one that merely fails for a while with it.
func TestPredecessorThatTheCAFailsOver(t *testing.T) {
	t.Parallel()
	broken := hostile.Problem(500, "serverInternal", "could not find an order for the given certificate")
	for failures, named := range map[int]bool{patienceWithPredecessor: true, patienceWithPredecessor + 1: false} {
		w, ca := hostileWorld(t, dbtest.SQLite(t))
		n := w.quiet()
		certID := n.addCert("a.example.test")
		if err := n.run(t.Context(), n.trigger(certID, "").ID); err != nil {
			t.Fatal(err)
		}
		for range failures {
			ca.Next(hostile.NewOrder, broken)
		}
		i := n.trigger(certID, "")
		if err := n.run(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		if i = n.issue(certID, i.ID); i.Status != StatusSuccess {
			t.Errorf("%d failures: %+v", failures, i)
		}
		if got := w.count("SELECT COUNT(*) FROM issuances WHERE id = ? AND replaces <> ''", i.ID) == 1; got != named {
			t.Errorf("%d failures: the predecessor is named: %v, want %v", failures, got, named)
		}
	}
}

// Renewals mind the limit on orders, but not at the price of an expiry.
func TestRenewalsAndTheLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		certID := n.addCert("a.example.test")
		began := w.time()
		for range maxOrders {
			if err := n.run(t.Context(), n.trigger(certID, "").ID); err != nil {
				t.Fatal(err)
			}
		}
		due := func() {
			if _, err := db.Writer().ExecContext(t.Context(), "UPDATE certificates SET next_renewal_at = 1"); err != nil {
				t.Fatal(err)
			}
		}
		due()
		if got := n.sweepAll(); len(got) != 0 || ca.Orders() != maxOrders {
			t.Fatalf("%d orders, %+v", ca.Orders(), got)
		}
		next := time.UnixMilli(n.cert(certID).NextRenewalAt)
		if next.Before(began.Add(limitTime)) || next.After(began.Add(limitTime+time.Minute)) {
			t.Errorf("put off until %v", next)
		}
		ca.Lifetime(time.Hour)
		w.at(began.Add(2 * limitTime))
		for range 2 * maxOrders {
			due()
			if got := n.sweepAll(); len(got) != 1 || got[0].Status != StatusSuccess {
				t.Fatalf("%+v", got)
			}
		}
	})
}

func TestRetryRenewal(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		failures             int
		lifetime, left, want time.Duration
	}{
		{1, 90 * day, 30 * day, time.Hour},
		{3, 90 * day, 30 * day, 4 * time.Hour},
		{99, 90 * day, 30 * day, 12 * time.Hour},
		{99, 90 * day, 3 * time.Hour, time.Hour},
		{99, 90 * day, time.Second, time.Minute},
		{99, 90 * day, -day, time.Hour},
		{1, 6 * day, 2 * day, 6 * day / 1000},
		{1, day, 8 * time.Hour, day / 1000},
		{1, 2 * time.Hour, 40 * time.Minute, time.Minute},
		{1, time.Minute, 20 * time.Second, time.Second},
		{3, time.Minute, 20 * time.Second, 4 * time.Second},
		{0, 0, 0, time.Second},
	} {
		if got := retryRenewal(c.failures, c.lifetime, c.left); got != c.want {
			t.Errorf("retryRenewal(%d, %v, %v) = %v, want %v", c.failures, c.lifetime, c.left, got, c.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	plain, busy := &acme.Problem{}, &acme.Problem{Status: 429}
	for _, c := range []struct {
		tries    int64
		p        *acme.Problem
		low, top time.Duration
	}{
		{1, plain, 450 * time.Millisecond, 550 * time.Millisecond},
		{4, plain, 3600 * time.Millisecond, 4400 * time.Millisecond},
		{1000, plain, 270 * time.Second, 330 * time.Second},
		{1, busy, 9 * time.Second, 11 * time.Second},
		{1, &acme.Problem{Type: "urn:ietf:params:acme:error:rateLimited"}, 9 * time.Second, 11 * time.Second},
		{1, &acme.Problem{Status: 503, RetryAfter: 17 * time.Minute}, 17 * time.Minute, 17 * time.Minute},
	} {
		if got := backoff(c.tries, c.p); got < c.low || got > c.top {
			t.Errorf("backoff(%d, %+v) = %v, want %v to %v", c.tries, c.p, got, c.low, c.top)
		}
	}
}
