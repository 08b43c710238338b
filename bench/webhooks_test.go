package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/webhooks"
)

// BenchmarkWebhookDelivery compares deliveries through the durable outbox on
// SQLite with synchronous=FULL, queueing included, with a bare loop of signed
// POSTs to the same receiver. Ratios are bare over ours, more is better:
// throughput-ratio by the clock, cpu-ratio by the processor time of the whole
// process, which on both sides includes the receiver. The goal is 0.2.
func BenchmarkWebhookDelivery(b *testing.B) {
	const events = 3000
	var got atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	var bare, queued, delivered usage
	for b.Loop() {
		bare.add(measure(func() { bareLoop(b, receiver.URL, events) }))
		o := newOutbox(b, receiver.URL)
		queued.add(measure(func() { o.queue(events) }))
		got.Store(0)
		delivered.add(measure(func() { o.deliver(&got, events) }))
	}
	total := delivered
	total.add(queued)
	n := float64(events * b.N)
	b.ReportMetric(float64(bare.wall)/float64(total.wall), "throughput-ratio")
	b.ReportMetric(float64(bare.cpu)/float64(total.cpu), "cpu-ratio")
	b.ReportMetric(float64(bare.wall.Microseconds())/n, "bare-µs")
	b.ReportMetric(float64(bare.cpu.Microseconds())/n, "bare-cpu-µs")
	b.ReportMetric(float64(queued.wall.Microseconds())/n, "queue-µs")
	b.ReportMetric(float64(delivered.wall.Microseconds())/n, "deliver-µs")
	b.ReportMetric(float64(queued.cpu.Microseconds())/n, "queue-cpu-µs")
	b.ReportMetric(float64(delivered.cpu.Microseconds())/n, "deliver-cpu-µs")
	b.ReportMetric(0, "ns/op")
}

const webhookSecret = "0123456789abcdef0123456789abcdef"

// bareLoop is what a program without durability would do.
func bareLoop(b *testing.B, url string, events int) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range events {
		body := fmt.Sprintf(`{"event":"certificate.issued","cert_id":%d,"issue_history_id":%d,"user_id":1,"ts_ms":%d,"domain_name":"a.example"}`, i, i, time.Now().UnixMilli())
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		stamp := strconv.FormatInt(time.Now().UnixMilli(), 10)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-BB-Timestamp", stamp)
		req.Header.Set("X-BB-Signature", webhooks.Sign([]byte(webhookSecret), stamp, []byte(body)))
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// outbox is a service with one user and one webhook on a fresh database.
type outbox struct {
	b       *testing.B
	db      *sqldb.DB
	service *webhooks.Service
	engine  *jobs.Engine
	user    int64
}

func newOutbox(b *testing.B, url string) *outbox {
	b.Helper()
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		b.Fatal(err)
	}
	o := &outbox{b: b, db: dbtest.SQLite(b)}
	o.service = webhooks.NewService(webhooks.Deps{
		DB: o.db, Audit: audit.New(time.Now), Now: time.Now, Keys: keys,
		Outbound: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	registry := jobs.NewRegistry()
	o.service.Register(registry)
	if o.engine, err = jobs.New(b.Context(), o.db, registry, slog.New(slog.DiscardHandler)); err != nil {
		b.Fatal(err)
	}
	o.service.UseJobs(o.engine)
	err = o.db.Writer().QueryRowContext(b.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
		VALUES ('bench@example.com', '', '', '', 'ACTIVE', '[]', 0, 0) RETURNING id`).Scan(&o.user)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := o.service.Create(b.Context(), o.user, webhooks.Input{URL: url, Secret: webhookSecret}); err != nil {
		b.Fatal(err)
	}
	return o
}

// queue writes the events as issuances do, except that ten of them share a
// commit: the commit belongs to the issuance.
func (o *outbox) queue(events int) {
	for i := 0; i < events; i += 10 {
		err := o.db.InTx(o.b.Context(), func(tx *sqldb.Tx) error {
			for n := int64(i + 1); n <= int64(i+10); n++ {
				if err := o.service.Issued(o.b.Context(), tx, webhooks.Event{CertID: n, IssueHistoryID: n, UserID: o.user, DomainName: "a.example"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			o.b.Fatal(err)
		}
	}
}

// deliver starts the job engine and waits until every delivery is recorded.
func (o *outbox) deliver(got *atomic.Int64, events int) {
	if err := o.engine.Start(o.b.Context()); err != nil {
		o.b.Fatal(err)
	}
	for pending := events; pending > 0; time.Sleep(5 * time.Millisecond) {
		if got.Load() < int64(events) {
			continue
		}
		if err := o.db.Reader().QueryRowContext(o.b.Context(), "SELECT COUNT(*) FROM webhook_deliveries WHERE status = 'PENDING'").Scan(&pending); err != nil {
			o.b.Fatal(err)
		}
	}
	if err := o.engine.Stop(context.WithoutCancel(o.b.Context())); err != nil {
		o.b.Fatal(err)
	}
	if n := got.Load(); n != int64(events) {
		o.b.Fatalf("%d requests for %d events", n, events)
	}
}

// usage is elapsed time and processor time.
type usage struct{ wall, cpu time.Duration }

func (u *usage) add(v usage) { u.wall, u.cpu = u.wall+v.wall, u.cpu+v.cpu }

// measure runs f and tells what it took of the clock and of the processors.
func measure(f func()) usage {
	begun, before := time.Now(), processorTime()
	f()
	return usage{time.Since(begun), processorTime() - before}
}

// processorTime is what this process has used so far, all threads together.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
