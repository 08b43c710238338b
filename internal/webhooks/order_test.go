package webhooks

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// issues lists the X-BB-Issue-History-Id of the requests about a certificate.
func issues(got []request, cert int64) (list []string) {
	for _, r := range got {
		if r.header.Get("X-BB-Cert-Id") == strconv.FormatInt(cert, 10) {
			list = append(list, r.header.Get("X-BB-Issue-History-Id"))
		}
	}
	return list
}

func equal(got []string, want ...string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

// A failing event holds back the later ones of its certificate and no other.
func TestOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		var mu sync.Mutex
		broken := true
		rec := newReceiver(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			mu.Lock()
			defer mu.Unlock()
			if broken && r.Header.Get("X-BB-Cert-Id") == "1" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		w := f.hook(rec.URL, nil)
		for i := range int64(3) {
			f.issued(1, 10+i)
			f.issued(2, 20+i)
		}
		f.settleJobs()
		if got := rec.requests(); !equal(issues(got, 1), "10") || !equal(issues(got, 2), "20", "21", "22") {
			t.Errorf("certificate 1: %v, certificate 2: %v", issues(got, 1), issues(got, 2))
		}
		f.issued(1, 13) // comes behind the others although the receiver works by now
		mu.Lock()
		broken = false
		mu.Unlock()
		f.settleJobs()
		f.clock.Advance(5 * time.Second)
		f.settleJobs()
		if got := issues(rec.requests(), 1); !equal(got, "10", "10", "11", "12", "13") {
			t.Errorf("certificate 1: %v", got)
		}
		for _, d := range f.list(w.ID) {
			if d.Status != StatusSuccess {
				t.Errorf("%+v", d)
			}
		}
	})
}

// A permanent failure is the end of that event, not of those behind it.
func TestOrderGoesOnAfterPermanentFailure(t *testing.T) {
	f := newFixture(t, dbtest.SQLite(t))
	rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.WriteHeader(map[bool]int{true: 400, false: 204}[n == 1])
	})
	f.hook(rec.URL, nil)
	f.issued(1, 10)
	f.issued(1, 11)
	f.settleJobs()
	if got := issues(rec.requests(), 1); !equal(got, "10", "11") {
		t.Errorf("%v", got)
	}
}

// While one receiver hangs another gets its events, and so do other
// certificates at the same receiver.
func TestSlowReceiverDelaysNobody(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db, func(d *Deps) { d.Outbound.Timeout = time.Minute })
		hanging, release := make(chan struct{}), make(chan struct{})
		slow := newReceiver(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("X-BB-Cert-Id") == "1" {
				close(hanging)
				<-release
			}
		})
		quick := newReceiver(t, nil)
		slowHook, quickHook := f.hook(slow.URL, nil), f.hook(quick.URL, nil)
		f.issued(1, 10)
		done := make(chan error, 1)
		list := f.table.due(t, f.clock.Now())
		if list[0].WebhookID != slowHook.ID {
			list[0], list[1] = list[1], list[0]
		}
		go func() { done <- f.drain(t.Context(), list[0]) }()
		<-hanging
		if err := f.drain(t.Context(), list[1]); err != nil {
			t.Error(err)
		}
		if d := f.one(quickHook.ID); d.Status != StatusSuccess {
			t.Errorf("the quick receiver's delivery: %+v", d)
		}
		f.issued(2, 20) // found by the run that hangs
		poll(t, func() bool { return len(issues(slow.requests(), 2)) == 1 })
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := len(f.list(slowHook.ID)); got != 2 || len(slow.requests()) != 2 {
			t.Errorf("%d deliveries, %d requests", got, len(slow.requests()))
		}
	})
}

// poll waits for a condition that another goroutine brings about.
func poll(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not happen within two minutes")
		}
	}
}

func TestRedeliverAndTest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		answer := http.StatusBadRequest
		rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(answer) })
		w := f.hook(rec.URL, nil)
		f.issued(1, 10)
		f.settleJobs()
		d := f.one(w.ID)
		answer = http.StatusOK
		again, err := f.Redeliver(t.Context(), f.user, w.ID, d.ID)
		if err != nil || again.ID != d.ID || again.Status != StatusPending || again.NextAttemptAt == 0 || again.Attempts != 0 {
			t.Fatalf("%+v, %v", again, err)
		}
		f.settleJobs()
		if got := rec.requests(); len(got) != 2 || got[0].header.Get("X-BB-Delivery-Id") != got[1].header.Get("X-BB-Delivery-Id") || f.one(w.ID).Status != StatusSuccess {
			t.Errorf("%d requests, %+v", len(got), f.one(w.ID))
		}

		// A pending one is hurried.
		answer = http.StatusInternalServerError
		f.issued(2, 20)
		f.settleJobs()
		waiting := f.list(w.ID)[0]
		if _, err := f.Redeliver(t.Context(), f.user, w.ID, waiting.ID); err != nil {
			t.Error(err)
		}
		answer = http.StatusOK
		f.settleJobs()
		if d := f.list(w.ID)[0]; d.Status != StatusSuccess || d.Attempts != 2 {
			t.Errorf("%+v", d)
		}

		// A test is tried once, and says nothing about the receiver's health.
		answer = http.StatusInternalServerError
		first, fresh, err := f.Test(t.Context(), f.user, w.ID)
		if err != nil || !fresh || first.Event != EventTest {
			t.Fatalf("%+v, %v, %v", first, fresh, err)
		}
		if same, fresh, err := f.Test(t.Context(), f.user, w.ID); err != nil || fresh || same.ID != first.ID {
			t.Errorf("%+v, %v, %v", same, fresh, err)
		}
		f.settleJobs()
		if d := f.list(w.ID)[0]; d.Status != StatusExhausted || d.LastStatusCode != 500 {
			t.Errorf("%+v", d)
		}
		if hook, err := lockIn(t, f, w.ID); err != nil || hook.health != (health{}) {
			t.Errorf("%+v, %v", hook.health, err)
		}
	})
}

// Events that come in one at a time, while jobs run, never strand.
func TestNothingStrands(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const writers, each = 4, 40
		f := newFixture(t, db)
		rec := newReceiver(t, nil)
		w := f.hook(rec.URL, nil)
		var group sync.WaitGroup
		for i := range int64(writers) {
			group.Go(func() {
				for n := range int64(each) {
					f.issued(i, 1000*i+n+1)
				}
			})
		}
		issued := make(chan struct{})
		go func() { group.Wait(); close(issued) }()
		for running := true; running; {
			select {
			case <-issued:
				running = false
			default:
			}
			f.settleJobs()
		}
		for i := range int64(writers) {
			got := issues(rec.requests(), i)
			for n, id := range got {
				if id != strconv.FormatInt(1000*i+int64(n)+1, 10) {
					t.Errorf("certificate %d: event %s at position %d", i, id, n)
				}
			}
			if len(got) != each {
				t.Errorf("certificate %d: %d of %d events", i, len(got), each)
			}
		}
		hook, err := lockIn(t, f, w.ID)
		if err != nil || hook.token != 0 || hook.holder != "" {
			t.Errorf("at rest: %+v, %v", hook, err)
		}
	})
}

func lockIn(t *testing.T, f *fixture, id int64) (hook locked, err error) {
	t.Helper()
	err = f.db.InTx(t.Context(), func(tx *sqldb.Tx) (err error) {
		hook, err = lock(t.Context(), tx, id)
		return err
	})
	return hook, err
}
