package webhooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

const testSecret = "planted-secret-0123456789"

// clock is the time of a test; it stands still unless it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_800_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// jobTable is a job engine on the test's clock: as with the real one, a job
// exists when its transaction commits, and runs again when it fails.
type jobTable struct{ db *sqldb.DB }

func newJobTable(t testing.TB, db *sqldb.DB) *jobTable {
	t.Helper()
	execute(t, db, "CREATE TABLE test_jobs (webhook_id BIGINT NOT NULL, token BIGINT NOT NULL, at BIGINT NOT NULL)")
	return &jobTable{db}
}

func (j *jobTable) Insert(ctx context.Context, tx *sqldb.Tx, args jobs.Args, o jobs.Options) error {
	d := args.(drainArgs)
	at := int64(0)
	if !o.At.IsZero() {
		at = o.At.UnixMilli()
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO test_jobs (webhook_id, token, at) VALUES ($1, $2, $3)", d.WebhookID, d.Token, at)
	return err
}

func (j *jobTable) due(t testing.TB, now time.Time) []drainArgs {
	t.Helper()
	rows, err := j.db.Reader().QueryContext(t.Context(), "SELECT webhook_id, token FROM test_jobs WHERE at <= $1 ORDER BY at, webhook_id", now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []drainArgs
	for rows.Next() {
		var d drainArgs
		if err := rows.Scan(&d.WebhookID, &d.Token); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// done removes a job; like a real engine's completion it is not part of any
// fault.
func (j *jobTable) done(t testing.TB, d drainArgs) {
	t.Helper()
	if _, err := j.db.Writer().ExecContext(t.Context(), "DELETE FROM test_jobs WHERE token = $1", d.Token); err != nil {
		t.Fatal(err)
	}
}

// fixture is a service with one user, on a database of its own.
type fixture struct {
	*Service
	t     testing.TB
	clock *clock
	table *jobTable
	user  int64
	told  []Disabled
	deps  Deps
}

func newFixture(t testing.TB, db *sqldb.DB, change ...func(*Deps)) *fixture {
	t.Helper()
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, clock: newClock(), table: newJobTable(t, db), user: newUser(t, db, "owner@example.com")}
	f.deps = Deps{
		DB: db, Audit: audit.New(f.clock.Now), Log: slog.New(slog.DiscardHandler), Now: f.clock.Now, Keys: keys, Jobs: f.table,
		Outbound: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 5 * time.Second},
		Tell: func(_ context.Context, _ *sqldb.Tx, d Disabled) error {
			f.told = append(f.told, d)
			return nil
		},
	}
	for _, c := range change {
		c(&f.deps)
	}
	f.Service = NewService(f.deps)
	f.random = func() float64 { return 0.5 } // no jitter
	return f
}

func execute(t testing.TB, db *sqldb.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Writer().ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func newUser(t testing.TB, db *sqldb.DB, email string) int64 {
	t.Helper()
	var id int64
	err := db.Writer().QueryRowContext(t.Context(), `INSERT INTO users (email, name, country_of_residence, password, status, roles, created_at, updated_at)
		VALUES ($1, '', '', '', 'ACTIVE', '[]', 0, 0) RETURNING id`, email).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) hook(url string, scope any) Webhook {
	f.t.Helper()
	w, _, err := f.Create(f.t.Context(), f.user, Input{URL: url, Secret: testSecret, Scope: scope})
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// issued runs Issued in a transaction of its own, until it is confirmed.
func (f *fixture) issued(cert, issue int64) {
	f.t.Helper()
	for {
		err := f.db.InTx(f.t.Context(), func(tx *sqldb.Tx) error {
			return f.Issued(f.t.Context(), tx, Event{CertID: cert, IssueHistoryID: issue, UserID: f.user, DomainName: "a.example", Names: []string{"a.example", "b.example"}})
		})
		if errors.Is(err, sqldb.ErrUncertain) {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		return
	}
}

// settleJobs runs every job that is due, on the given services in turn, until
// none is. A job that fails stays; what it said is returned.
func (f *fixture) settleJobs(nodes ...*Service) (failures []error) {
	f.t.Helper()
	if len(nodes) == 0 {
		nodes = []*Service{f.Service}
	}
	for round := 0; ; round++ {
		list := f.table.due(f.t, f.clock.Now())
		if len(list) == 0 {
			return failures
		}
		if round > 5000 {
			f.t.Fatalf("jobs never settle; last failures: %v", failures[max(0, len(failures)-3):])
		}
		for i, d := range list {
			if err := nodes[(round+i)%len(nodes)].drain(f.t.Context(), d); err != nil {
				failures = append(failures, err)
				continue
			}
			f.table.done(f.t, d)
		}
	}
}

func (f *fixture) list(webhookID int64) []Delivery {
	f.t.Helper()
	rows, err := New(f.db.Reader()).listDeliveries(f.t.Context(), listDeliveriesParams{WebhookID: webhookID, PageLimit: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	var list []Delivery
	for _, r := range rows {
		list = append(list, toDelivery(getDeliveryRow(r), true))
	}
	return list
}

func (f *fixture) one(webhookID int64) Delivery {
	f.t.Helper()
	list := f.list(webhookID)
	if len(list) != 1 {
		f.t.Fatalf("%d deliveries, want 1", len(list))
	}
	return list[0]
}

// request is what a receiver saw.
type request struct {
	header http.Header
	body   string
}

// receiver is a server that verifies signatures and notes what it gets.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []request
}

// newReceiver answers 204, or what answer (called with the number of the
// request, from 1) writes.
func newReceiver(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int)) *receiver {
	t.Helper()
	rec := &receiver{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read body: %v", err)
		}
		mac := hmac.New(sha256.New, []byte(testSecret))
		mac.Write([]byte(r.Header.Get("X-BB-Timestamp") + "." + string(text)))
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-BB-Signature") != want {
			t.Errorf("signature %q, want %q", r.Header.Get("X-BB-Signature"), want)
		}
		rec.mu.Lock()
		rec.got = append(rec.got, request{r.Header.Clone(), string(text)})
		n := len(rec.got)
		rec.mu.Unlock()
		if answer != nil {
			answer(w, r, n)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.got...)
}

func status(code int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(code) }
}
