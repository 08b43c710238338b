package mail

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

const secretCode = "731946"

// post is the area on a database with the real job engine, which runs only
// after start.
type post struct {
	*Service
	db     *sqldb.DB
	engine *jobs.Engine
	log    *buffer
	ms     atomic.Int64
}

type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func open(t *testing.T, db *sqldb.DB, transport Transport) *post {
	t.Helper()
	p := &post{db: db, log: &buffer{}}
	p.ms.Store(time.Now().UnixMilli())
	now := func() time.Time { return time.UnixMilli(p.ms.Load()) }
	keys, err := seal.New(seal.NewDataKey())
	if err != nil {
		t.Fatal(err)
	}
	p.Service = NewService(Deps{
		DB: db, Audit: audit.New(now), Keys: keys, Transport: transport, Now: now,
		Log: slog.New(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	registry := jobs.NewRegistry()
	p.Register(registry)
	if p.engine, err = jobs.New(t.Context(), db, registry, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	p.UseJobs(p.engine)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := p.engine.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// enqueue writes the usual message and returns its id.
func (p *post) enqueue(t *testing.T, to string) (id int64) {
	t.Helper()
	err := p.db.InTx(t.Context(), func(tx *sqldb.Tx) error {
		return p.Enqueue(t.Context(), tx, Message{UserID: 7, Kind: "reset-code", To: to, TTL: 15 * time.Minute, Letter: Letter{
			Subject: "Your code — Grüße", Paragraphs: []string{"This is the code for <you> & nobody else:", "Bye."}, Code: secretCode,
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return number(t, p.db, "SELECT MAX(id) FROM mails")
}

// row is what became of a message.
func (p *post) row(t *testing.T, id int64) (status, failure string, attempts int64, sealed []byte) {
	t.Helper()
	row := p.db.Reader().QueryRowContext(t.Context(), "SELECT status, error, attempts, body_sealed FROM mails WHERE id = $1", id)
	if err := row.Scan(&status, &failure, &attempts, &sealed); err != nil {
		t.Fatal(err)
	}
	return status, failure, attempts, sealed
}

func number(t *testing.T, db *sqldb.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.Reader().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
