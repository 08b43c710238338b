package quotas

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

const sessionsOf = "SELECT COUNT(*) FROM sessions WHERE user_id = $1"

// newService counts the rows of a table that stands for any.
func newService(t *testing.T, db *sqldb.DB, limits Limits) *Service {
	t.Helper()
	s := NewService(Deps{DB: db, Audit: audit.New(time.Now), Limiter: ratelimit.NewLimiter(db, time.Now), Limits: limits})
	s.Count(Webhooks, func(ctx context.Context, q sqldb.Querier, userID int64) (n int64, err error) {
		return n, q.QueryRowContext(ctx, sessionsOf, userID).Scan(&n)
	})
	s.Count(Storage, func(context.Context, sqldb.Querier, int64) (int64, error) { return 3 << 20, nil })
	return s
}

func newUser(t *testing.T, db *sqldb.DB, id int64) int64 {
	t.Helper()
	_, err := db.Writer().ExecContext(t.Context(), `INSERT INTO users (id, email, name, country_of_residence, password, status, roles, created_at, updated_at)
		VALUES ($1, $2, '', '', '', 'ACTIVE', '[]', 0, 0)`, id, fmt.Sprintf("u%d@example.com", id))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Hundreds of creates at once on two nodes end with exactly what is allowed, of
// each user; so do attempts.
func TestQuotasHoldInParallel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const allowed, callers = 7, 200
		nodes := []*Service{newService(t, db, Limits{Webhooks: allowed, Attempts: allowed}), newService(t, db, Limits{Webhooks: allowed, Attempts: allowed})}
		users := []int64{newUser(t, db, 1), newUser(t, db, 2)}
		var made, begun, full atomic.Int64
		count := func(err error, good *atomic.Int64, code fault.Code, key string) {
			switch f := fault.As(err); {
			case err == nil:
				good.Add(1)
			case f != nil && f.Code == code && (key == "" || f.Key == key):
				full.Add(1)
			default:
				t.Error(err)
			}
		}
		var group sync.WaitGroup
		for i := range callers {
			s, user := nodes[i%2], users[i/2%2]
			group.Go(func() {
				count(db.InTx(t.Context(), func(tx *sqldb.Tx) error {
					if err := s.One(Webhooks)(t.Context(), tx, user); err != nil {
						return err
					}
					_, err := tx.ExecContext(t.Context(), `INSERT INTO sessions (user_id, token_hash, amr, acr, auth_time, ip, user_agent, created_at, seen_at, expires_at)
						VALUES ($1, $2, '[]', 'aal1', 0, '', '', 0, 0, 0)`, user, fmt.Appendf(nil, "%d", i))
					return err
				}), &made, fault.CodeConflict, "QUOTA")
				count(db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Attempt(t.Context(), tx, user) }), &begun, fault.CodeRateLimited, "")
			})
		}
		group.Wait()
		if made.Load() != 2*allowed || begun.Load() != 2*allowed || full.Load() != 2*callers-4*allowed {
			t.Errorf("%d made, %d begun, %d refused", made.Load(), begun.Load(), full.Load())
		}
	})
}

// What an operator sets for one user is theirs alone, and shown.
func TestSingleUsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := newService(t, db, Limits{Webhooks: 1, Storage: 2, Attempts: 5})
		one, other := newUser(t, db, 1), newUser(t, db, 2)
		stored := func(user int64) error {
			return db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Stored(t.Context(), tx, user) })
		}
		for _, allowed := range []int64{1, 4} {
			if err := s.Set(t.Context(), one, Storage, allowed); err != nil {
				t.Fatal(err)
			}
		}
		if err := stored(one); err != nil {
			t.Errorf("3 MiB of 4: %v", err)
		}
		if err := stored(other); !fault.Is(err, fault.CodeConflict) || fault.As(err).Key != "QUOTA" {
			t.Errorf("3 MiB of 2: %v", err)
		}
		if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return s.Attempt(t.Context(), tx, one) }); err != nil {
			t.Fatal(err)
		}
		list, err := s.List(t.Context(), one)
		if err != nil || len(list) != len(names) {
			t.Fatalf("%+v %v", list, err)
		}
		for _, want := range []Quota{{Webhooks, 0, 1}, {Storage, 3, 4}, {Attempts, 1, 5}} {
			found := false
			for _, got := range list {
				found = found || got == want
			}
			if !found {
				t.Errorf("%+v is not in %+v", want, list)
			}
		}
	})
}

func TestParse(t *testing.T) {
	t.Parallel()
	l, err := ParseLimits([]string{"certificates=5", " storage-mib=0"})
	if err != nil || l[Certificates] != 5 || l[Storage] != 0 || l[Devices] != 1000 {
		t.Errorf("%v %v", l, err)
	}
	for _, name := range names {
		if _, ok := DefaultLimits()[name]; !ok || name.of() == "" {
			t.Errorf("%s has no default", name)
		}
	}
	for _, bad := range []string{"", "x=1", "certificates", "certificates=", "certificates=-1", "certificates=1e3", "certificates=1000001"} {
		if _, err := ParseLimits([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
