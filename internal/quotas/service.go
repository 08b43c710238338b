package quotas

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Counter counts what a user has: objects, or bytes for Storage.
type Counter func(ctx context.Context, q sqldb.Querier, userID int64) (int64, error)

// Deps are what a Service needs. All are required.
type Deps struct {
	DB      *sqldb.DB
	Audit   *audit.Log
	Limiter *ratelimit.Limiter
	Limits  Limits
}

// Service holds the rules of quotas.
type Service struct {
	Deps
	counters map[Name][]Counter
}

// NewService returns the service; Count completes it.
func NewService(d Deps) *Service { return &Service{Deps: d, counters: map[Name][]Counter{}} }

// Count says how a quota is counted, before the first request. Several counters
// of one are added up.
func (s *Service) Count(name Name, count Counter) {
	s.counters[name] = append(s.counters[name], count)
}

// One returns what an area asks in the transaction that makes one more.
func (s *Service) One(name Name) func(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	return func(ctx context.Context, tx *sqldb.Tx, userID int64) error {
		return s.allow(ctx, tx, userID, name, 1)
	}
}

// Stored is asked at the end of a transaction that has stored something.
func (s *Service) Stored(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	return s.allow(ctx, tx, userID, Storage, 0)
}

// allow refuses (409, key QUOTA) when the user has more than is allowed together
// with what the transaction is about to add.
func (s *Service) allow(ctx context.Context, tx *sqldb.Tx, userID int64, name Name, more int64) error {
	if err := tx.LockText(ctx, fmt.Sprintf("quota %s %d", name, userID)); err != nil {
		return err
	}
	allowed, err := s.allowed(ctx, tx, userID, name)
	if err != nil {
		return err
	}
	used, err := s.used(ctx, tx, userID, name)
	if err != nil {
		return err
	}
	if used+more <= allowed*unit(name) {
		return nil
	}
	f := fault.Conflict("You may have %d %s, and have as many; delete some first, or ask the operator for more.", allowed, name.of())
	f.Key, f.Params = "QUOTA", map[string]any{"quota": string(name), "allowed": allowed}
	return f
}

// Attempt counts an attempt that was not started by the server itself, and
// refuses (429/5013) one too many within the hour.
func (s *Service) Attempt(ctx context.Context, tx *sqldb.Tx, userID int64) error {
	allowed, err := s.allowed(ctx, tx, userID, Attempts)
	if err != nil {
		return err
	}
	err = s.Limiter.CountIn(ctx, tx, attempts(userID, allowed))
	if f := fault.As(err); f != nil {
		return fault.RateLimited(f.RetryAfter, "You may start %d attempts to issue within an hour, cancelled ones included; wait, or ask the operator for more.", allowed)
	}
	return err
}

func attempts(userID, allowed int64) ratelimit.Hit {
	return ratelimit.Hit{Rule: ratelimit.IssuesOfUser, Key: strconv.FormatInt(userID, 10), Max: int(allowed), Window: time.Hour}
}

// unit is how much of what counters count is one of the quota.
func unit(name Name) int64 {
	if name == Storage {
		return 1 << 20
	}
	return 1
}

func (s *Service) used(ctx context.Context, q sqldb.Querier, userID int64, name Name) (sum int64, err error) {
	for _, count := range s.counters[name] {
		n, err := count(ctx, q, userID)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (s *Service) allowed(ctx context.Context, q sqldb.Querier, userID int64, name Name) (int64, error) {
	allowed, err := New(q).quotaOf(ctx, quotaOfParams{UserID: userID, Name: string(name)})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return s.Limits[name], nil
	}
	if err != nil {
		return 0, fmt.Errorf("read quota %s: %w", name, err)
	}
	return allowed, nil
}

// Quota is one line of what a user may have.
type Quota struct {
	Name    Name  `json:"name" doc:"certificates, devices, acme-accounts, webhooks, api-keys, storage-mib or attempts-per-hour."`
	Used    int64 `json:"used" doc:"What the user has now; of MiB those that are begun."`
	Allowed int64 `json:"allowed" doc:"What the user may have."`
}

// List returns all quotas of the user.
func (s *Service) List(ctx context.Context, userID int64) ([]Quota, error) {
	q := s.DB.Reader()
	list := make([]Quota, 0, len(names))
	for _, name := range names {
		allowed, err := s.allowed(ctx, q, userID, name)
		if err != nil {
			return nil, err
		}
		var used int64
		if name == Attempts {
			if used, err = s.Limiter.Used(ctx, attempts(userID, allowed)); err != nil {
				return nil, err
			}
			used = min(used, allowed)
		} else if used, err = s.used(ctx, q, userID, name); err != nil {
			return nil, err
		}
		list = append(list, Quota{Name: name, Used: (used + unit(name) - 1) / unit(name), Allowed: allowed})
	}
	return list, nil
}

// Set allows a single user so much, whatever the settings say.
func (s *Service) Set(ctx context.Context, userID int64, name Name, allowed int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := New(tx).setQuota(ctx, setQuotaParams{UserID: userID, Name: string(name), Allowed: allowed}); err != nil {
			return fmt.Errorf("set quota %s: %w", name, err)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "quota.set", Object: fmt.Sprintf("user %d", userID), Detail: map[string]any{"quota": string(name), "allowed": allowed},
		})
	})
}
