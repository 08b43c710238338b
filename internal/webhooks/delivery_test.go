package webhooks

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestDelivery(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, nil)
		w := f.hook(rec.URL+"/hook?x=1", nil)
		f.issued(7, 70)
		queued := f.clock.Now().UnixMilli()
		f.clock.Advance(3 * time.Second)
		f.settleJobs()

		d := f.one(w.ID)
		got := rec.requests()
		if len(got) != 1 {
			t.Fatalf("%d requests, want 1", len(got))
		}
		h := got[0].header
		for name, want := range map[string]string{
			"User-Agent": "svc-service-webhook/1", "Content-Type": "application/json", "X-BB-Event": "certificate.issued",
			"X-BB-Webhook-Id": strconv.FormatInt(w.ID, 10), "X-BB-Delivery-Id": strconv.FormatInt(d.ID, 10),
			"X-BB-Cert-Id": "7", "X-BB-Issue-History-Id": "70", "X-BB-Timestamp": strconv.FormatInt(queued+3000, 10),
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, h.Get(name), want)
			}
		}
		if want := fmt.Sprintf(`{"event":"certificate.issued","cert_id":7,"issue_history_id":70,"user_id":%d,"ts_ms":%d,"domain_name":"a.example"}`, f.user, queued); got[0].body != want {
			t.Errorf("body %s, want %s", got[0].body, want)
		}
		want := Delivery{
			ID: d.ID, WebhookID: w.ID, Event: EventIssued, CertID: 7, IssueHistoryID: 70, Status: StatusSuccess, Attempts: 1,
			LastStatusCode: 204, LastAttemptAt: queued + 3000, CreatedAt: queued, FinishedAt: queued + 3000,
		}
		if d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
		w, err := f.Get(t.Context(), f.user, w.ID)
		if err != nil || w.LastDelivery == nil || *w.LastDelivery != want {
			t.Errorf("last_delivery %+v, %v", w.LastDelivery, err)
		}
	})
}

// The case of header names does not matter, but some receivers think it does.
func TestHeadersAreSpelledAsSpecified(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	head := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		head <- string(buf[:n])
		_, _ = conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	}()
	f := newFixture(t, dbtest.SQLite(t))
	f.hook("http://"+l.Addr().String(), nil)
	f.issued(1, 1)
	f.settleJobs()
	text := <-head
	for _, name := range []string{"X-BB-Event", "X-BB-Webhook-Id", "X-BB-Delivery-Id", "X-BB-Cert-Id", "X-BB-Issue-History-Id", "X-BB-Timestamp", "X-BB-Signature", "User-Agent"} {
		if !strings.Contains(text, "\r\n"+name+": ") {
			t.Errorf("no %s in %q", name, text)
		}
	}
}

func TestScopesAndState(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, nil)
		off := false
		_, _, err := f.Create(t.Context(), f.user, Input{URL: rec.URL, Secret: testSecret, Enabled: &off})
		if err != nil {
			t.Fatal(err)
		}
		stranger := newUser(t, db, "stranger@example.com")
		if _, _, err := f.Create(t.Context(), stranger, Input{URL: rec.URL, Secret: testSecret}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, scope := range []map[string]any{
			{"type": "all"}, {"type": "cert_id", "cert_id": 7.0}, {"type": "domain", "domain": "b.example"}, {"type": "nonsense"},
		} {
			want = append(want, strconv.FormatInt(f.hook(rec.URL, scope).ID, 10))
		}
		f.hook(rec.URL, map[string]any{"type": "cert_id", "cert_id": 8.0})
		f.hook(rec.URL, map[string]any{"type": "domain", "domain": "c.example"})
		f.issued(7, 70)
		f.issued(7, 70) // an issuance that is finished twice is told once
		f.settleJobs()
		var got []string
		for _, r := range rec.requests() {
			got = append(got, r.header.Get("X-BB-Webhook-Id"))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("webhooks %v, want %v", got, want)
		}
	})
}

func TestRolledBackIssuanceIsNotTold(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, nil)
		w := f.hook(rec.URL, nil)
		stop := errors.New("the issuance failed after all")
		_ = db.InTx(t.Context(), func(tx *sqldb.Tx) error {
			if err := f.Issued(t.Context(), tx, Event{CertID: 1, IssueHistoryID: 1, UserID: f.user}); err != nil {
				t.Error(err)
			}
			return stop
		})
		f.settleJobs()
		if n := len(f.list(w.ID)) + len(rec.requests()); n != 0 {
			t.Errorf("%d deliveries and requests, want none", n)
		}
	})
}

// Every way in which a receiver misbehaves.
func TestReceivers(t *testing.T) {
	canary := newReceiver(t, nil)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	hijack := func(write string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(write))
			_ = conn.Close()
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int)
		status string
		code   int64
		wait   time.Duration // until the next attempt
		off    bool          // disabled by it
	}{
		"200":            {answer: status(200), status: StatusSuccess, code: 200},
		"400":            {answer: status(400), status: StatusPermanent, code: 400},
		"401":            {answer: status(401), status: StatusPermanent, code: 401},
		"408":            {answer: status(408), status: StatusPending, code: 408, wait: 5 * time.Second},
		"410":            {answer: status(410), status: StatusPermanent, code: 410, off: true},
		"500":            {answer: status(500), status: StatusPending, code: 500, wait: 5 * time.Second},
		"garbage":        {answer: hijack("\x00\x01 who am I\r\n\r\n"), status: StatusPending, wait: 5 * time.Second},
		"closes early":   {answer: hijack(""), status: StatusPending, wait: 5 * time.Second},
		"closes in head": {answer: hijack("HTTP/1.1 204 No"), status: StatusPending, wait: 5 * time.Second},
		"huge head":      {answer: hijack("HTTP/1.1 204 No Content\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), status: StatusPending, wait: 5 * time.Second},
		"hangs":          {answer: func(_ http.ResponseWriter, r *http.Request, _ int) { waitFor(r, hang) }, status: StatusPending, wait: 5 * time.Second},
		"302": {
			answer: func(w http.ResponseWriter, r *http.Request, _ int) { http.Redirect(w, r, canary.URL, http.StatusFound) },
			status: StatusPermanent, code: 302,
		},
		"429 with Retry-After": {
			answer: func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusTooManyRequests)
			},
			status: StatusPending, code: 429, wait: time.Hour,
		},
		"503 with a week's Retry-After": {
			answer: func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Retry-After", "604800")
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			status: StatusPending, code: 503, wait: 8 * time.Hour,
		},
		"endless body": {
			answer: func(w http.ResponseWriter, r *http.Request, _ int) {
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 4096)); err != nil {
						return
					}
				}
			},
			status: StatusSuccess, code: 200,
		},
		"body stays away": {
			answer: func(w http.ResponseWriter, r *http.Request, _ int) {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				waitFor(r, hang)
			},
			status: StatusSuccess, code: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			f := newFixture(t, dbtest.SQLite(t), func(d *Deps) {
				d.Outbound.Timeout = 300 * time.Millisecond
				d.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			rec := newReceiver(t, c.answer)
			w := f.hook(rec.URL, nil)
			f.issued(1, 1)
			f.settleJobs()
			d := f.one(w.ID)
			now := f.clock.Now().UnixMilli()
			if d.Status != c.status || d.LastStatusCode != c.code || d.Attempts != 1 {
				t.Errorf("%+v", d)
			}
			if c.wait > 0 != (d.NextAttemptAt > 0) || c.wait > 0 && d.NextAttemptAt != now+c.wait.Milliseconds() {
				t.Errorf("next attempt in %d ms, want %d", d.NextAttemptAt-now, c.wait.Milliseconds())
			}
			if (d.LastError == "") != (c.status == StatusSuccess) || strings.Contains(d.LastError, "who am I") || strings.Contains(d.LastError, "127.0.0.1") {
				t.Errorf("last error %q", d.LastError)
			}
			after, err := f.Get(t.Context(), f.user, w.ID)
			if err != nil || after.Enabled == c.off || strings.Contains(after.DisabledReason, "410") != c.off || len(f.told) != 0 != c.off {
				t.Errorf("%+v, told %v, %v", after, f.told, err)
			}
			if n := len(rec.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
			if told := strings.Count(log.String(), "has failed for good"); (told == 1) != (c.status == StatusPermanent) || told > 1 {
				t.Errorf("the end is logged %d times: %s", told, &log)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(canary.requests()); n != 0 {
			t.Errorf("the redirect was followed %d times", n)
		}
	})
}

// waitFor blocks until the caller goes away or the test ends.
func waitFor(r *http.Request, end <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-end:
	}
}

// The whole life of a delivery that never succeeds.
func TestRetries(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, status(503))
		w := f.hook(rec.URL, nil)
		f.issued(1, 1)
		start := f.clock.Now()
		for {
			f.settleJobs()
			d := f.one(w.ID)
			if d.Status != StatusPending {
				break
			}
			f.clock.Advance(time.UnixMilli(d.NextAttemptAt - 1).Sub(f.clock.Now()))
			before := len(rec.requests())
			f.settleJobs()
			if len(rec.requests()) != before {
				t.Fatal("an attempt before its time")
			}
			f.clock.Advance(time.Millisecond)
		}
		d := f.one(w.ID)
		got := rec.requests()
		if d.Status != StatusExhausted || d.Attempts != maxRetries+1 || len(got) != maxRetries+1 || d.LastStatusCode != 503 || d.NextAttemptAt != 0 {
			t.Errorf("%+v after %d requests", d, len(got))
		}
		if took := f.clock.Now().Sub(start); took < 72*time.Hour || took > 80*time.Hour {
			t.Errorf("gave up after %v", took)
		}
		ids, stamps, signatures := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, r := range got {
			ids[r.header.Get("X-BB-Delivery-Id")] = true
			stamps[r.header.Get("X-BB-Timestamp")] = true
			signatures[r.header.Get("X-BB-Signature")] = true
			if r.body != got[0].body {
				t.Errorf("body %q, at first %q", r.body, got[0].body)
			}
		}
		if len(ids) != 1 || len(stamps) != len(got) || len(signatures) != len(got) {
			t.Errorf("%d delivery ids, %d timestamps and %d signatures in %d attempts", len(ids), len(stamps), len(signatures), len(got))
		}
	})
}

func TestFailingForFiveDays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, status(500))
		w := f.hook(rec.URL, nil)
		for hour := range 24*5 + 1 {
			f.issued(int64(hour+1), int64(hour+1))
			f.settleJobs()
			now, err := f.Get(t.Context(), f.user, w.ID)
			if err != nil || now.Enabled != (hour < 24*5) {
				t.Fatalf("hour %d: enabled %v, %v", hour, now.Enabled, err)
			}
			f.clock.Advance(time.Hour)
		}
		after, err := f.Get(t.Context(), f.user, w.ID)
		if err != nil || after.DisabledReason != reasonFailing || len(f.told) != 1 || f.told[0].WebhookID != w.ID || f.told[0].UserID != f.user {
			t.Errorf("%+v, told %+v, %v", after, f.told, err)
		}
		before := len(rec.requests())
		f.clock.Advance(24 * time.Hour)
		f.issued(1000, 1000)
		f.settleJobs()
		if n := len(rec.requests()) - before; n != 0 {
			t.Errorf("%d attempts while disabled", n)
		}
	})
}

// A webhook that is enabled again goes on with what was pending.
func TestEnableAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := newFixture(t, db)
		rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			w.WriteHeader(map[bool]int{true: 410, false: 200}[n == 1])
		})
		w := f.hook(rec.URL, nil)
		f.issued(1, 1)
		f.issued(1, 2)
		f.settleJobs()
		if n := len(rec.requests()); n != 1 {
			t.Fatalf("%d requests before", n)
		}
		w, _, err := f.Update(t.Context(), f.user, w.ID, Input{URL: rec.URL, Secret: testSecret})
		if err != nil || !w.Enabled || w.DisabledReason != "" {
			t.Fatalf("%+v, %v", w, err)
		}
		f.settleJobs()
		list := f.list(w.ID)
		if list[1].Status != StatusPermanent || list[0].Status != StatusSuccess {
			t.Errorf("%+v", list)
		}
	})
}
