package webhooks

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestMain lets the test binary be the server that TestKill kills.
func TestMain(m *testing.M) {
	if os.Getenv("WEBHOOKS_CHILD_DB") == "" {
		os.Exit(m.Run())
	}
	if err := child(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start makes a service with the real engine and the real clock.
func start(ctx context.Context, db *sqldb.DB, keys *seal.Keyring) (*Service, *jobs.Engine, error) {
	s := NewService(Deps{
		DB: db, Audit: audit.New(time.Now), Now: time.Now, Keys: keys,
		Outbound: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	registry := jobs.NewRegistry()
	s.Register(registry)
	engine, err := jobs.New(ctx, db, registry, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	s.UseJobs(engine)
	return s, engine, engine.Start(ctx)
}

// child issues one certificate after the other, each in a transaction that
// also notes the success in a table, until it is killed. With the goal it
// waits instead until everything is delivered.
func child(ctx context.Context) error {
	db, err := sqldb.Open(ctx, sqldb.Config{Path: os.Getenv("WEBHOOKS_CHILD_DB")})
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(os.Getenv("WEBHOOKS_CHILD_KEY"))
	if err != nil {
		return err
	}
	keys, err := seal.New(key)
	if err != nil {
		return err
	}
	s, engine, err := start(ctx, db, keys)
	if err != nil {
		return err
	}
	for os.Getenv("WEBHOOKS_CHILD_GOAL") == "" {
		err := db.InTx(ctx, func(tx *sqldb.Tx) error {
			var issue int64
			if err := tx.QueryRowContext(ctx, "INSERT INTO successes DEFAULT VALUES RETURNING id").Scan(&issue); err != nil {
				return err
			}
			return s.Issued(ctx, tx, Event{CertID: issue % 7, IssueHistoryID: issue, UserID: 1, DomainName: "a.example"})
		})
		if err != nil {
			return err
		}
	}
	for pending := 1; pending > 0; time.Sleep(10 * time.Millisecond) {
		if err := db.Reader().QueryRowContext(ctx, "SELECT COUNT(*) FROM webhook_deliveries WHERE status = 'PENDING'").Scan(&pending); err != nil {
			return err
		}
	}
	return engine.Stop(ctx)
}

// The server is killed at random moments; every success that it committed
// reaches the receiver, under one delivery id, and nothing else does.
func TestKill(t *testing.T) {
	config := dbtest.SQLiteConfig(t)
	key := seal.NewDataKey()
	keys, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	rec := newReceiver(t, nil)
	db := dbtest.Open(t, config)
	execute(t, db, "CREATE TABLE successes (id INTEGER PRIMARY KEY AUTOINCREMENT)")
	user := newUser(t, db, "owner@example.com")
	s := NewService(Deps{DB: db, Audit: audit.New(time.Now), Now: time.Now, Keys: keys, Outbound: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if _, _, err := s.Create(t.Context(), user, Input{URL: rec.URL, Secret: testSecret}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	spawn := func(goal string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), "WEBHOOKS_CHILD_DB="+config.Path, "WEBHOOKS_CHILD_KEY="+hex.EncodeToString(key), "WEBHOOKS_CHILD_GOAL="+goal)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 8 {
		before := len(rec.requests())
		c := spawn("")
		// The moment is counted in deliveries, so that it falls into the work.
		after := before + 1 + rand.IntN(60)
		poll(t, func() bool { return len(rec.requests()) >= after })
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	}
	begun := time.Now()
	if err := spawn("all").Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the last start needed %v", time.Since(begun))
	db = dbtest.Open(t, config)
	var n int
	if err := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM successes").Scan(&n); err != nil {
		t.Fatal(err)
	}
	got := rec.requests()
	attempts := checkDelivered(t, got, n)
	for _, r := range got {
		if id, err := strconv.Atoi(r.header.Get("X-BB-Issue-History-Id")); err != nil || id > n {
			t.Errorf("told of issue %d, which never was", id)
		}
	}
	t.Logf("%d successes, %d attempts", n, attempts)
}

// The real engine on both databases.
func TestEngine(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		keys, err := seal.New(seal.NewDataKey())
		if err != nil {
			t.Fatal(err)
		}
		s, engine, err := start(t.Context(), db, keys)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := engine.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		rec := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable) // comes again after 5 s
			}
		})
		user := newUser(t, db, "owner@example.com")
		if _, _, err := s.Create(t.Context(), user, Input{URL: rec.URL, Secret: testSecret}); err != nil {
			t.Fatal(err)
		}
		const n = 50
		for i := int64(1); i <= n; i++ {
			err := db.InTx(t.Context(), func(tx *sqldb.Tx) error {
				return s.Issued(t.Context(), tx, Event{CertID: i % 3, IssueHistoryID: i, UserID: user})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		poll(t, func() bool { return len(rec.requests()) == n+1 })
		checkDelivered(t, rec.requests(), n)
	})
}
