package apikeys

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// StepUp asks for a fresh sign-in before dangerous actions (decisions.md
// section 2).
type StepUp interface {
	// RequireStepUp is nil, or the fault STEP_UP_REQUIRED for the caller of ctx.
	RequireStepUp(ctx context.Context, q sqldb.Querier) error
}

// Deps are what a Service needs. DB and Audit are required.
type Deps struct {
	DB     *sqldb.DB
	Audit  *audit.Log
	StepUp StepUp           // nil: not asked
	Log    *slog.Logger     // nil: discarded
	Now    func() time.Time // nil: time.Now
	// Quota refuses a user who has too many keys. Nil: nobody has.
	Quota func(ctx context.Context, tx *sqldb.Tx, userID int64) error
	// UseInterval is how often the times of last use are written; 0: a minute.
	UseInterval time.Duration
}

// Service holds the rules of API keys. Make one with NewService.
type Service struct {
	Deps
	known sync.Map   // key id → *known
	write sync.Mutex // one writer of uses at a time

	cancel  context.CancelFunc // ends the writer that Start began
	stopped chan struct{}
}

// NewService returns the service. Uses are written by Start or WriteUse alone.
func NewService(d Deps) *Service {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.UseInterval == 0 {
		d.UseInterval = time.Minute
	}
	return &Service{Deps: d}
}

// Count tells how many keys the user has.
func (s *Service) Count(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).countKeys(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("count API keys: %w", err)
	}
	return n, nil
}

// Create makes a key of the user and returns it with its token, which cannot be
// had again. The caller needs a fresh sign-in.
func (s *Service) Create(ctx context.Context, userID int64, d NewKey) (CreatedKey, error) {
	d, err := d.check()
	if err != nil {
		return CreatedKey{}, err
	}
	permissions, err := encode(d.Permissions)
	if err != nil {
		return CreatedKey{}, err
	}
	token := seal.NewToken(tokenPrefix, tokenBytes)
	var key APIKey
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.stepUp(ctx, tx); err != nil {
			return err
		}
		if s.Quota != nil {
			if err := s.Quota(ctx, tx, userID); err != nil {
				return err
			}
		}
		q := New(tx)
		now := s.Now()
		id, err := q.insertKey(ctx, insertKeyParams{
			UserID: userID, Name: d.Name, Prefix: token[:shownLength], TokenHash: seal.HashToken(token), Permissions: permissions,
			ExpiresInSeconds: d.ExpiresInSeconds, Now: now.UnixMilli(), ExpiresAt: d.expiry(now),
		})
		if err != nil {
			return fmt.Errorf("insert API key: %w", err)
		}
		if key, err = get(ctx, tx, userID, id); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "apikey.create", Object: object(id),
			Detail: map[string]any{"name": key.Name, "permissions": key.Permissions, "expires_at": key.ExpiresAt},
		})
	})
	if err != nil {
		return CreatedKey{}, err
	}
	return CreatedKey{APIKey: key, Token: token}, nil
}

// Update sets the given members, for the very next request with the key. To
// permit more than before is to make a new key, and needs a fresh sign-in too.
func (s *Service) Update(ctx context.Context, userID, id int64, c KeyChange) (APIKey, error) {
	c, err := c.check()
	if err != nil {
		return APIKey{}, err
	}
	var key APIKey
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		r, err := New(tx).lockKey(ctx, lockKeyParams{ID: id, UserID: userID, Now: s.Now().UnixMilli()})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return errNotFound()
		}
		if err != nil {
			return fmt.Errorf("lock API key: %w", err)
		}
		if key, err = fromRow(row(r)); err != nil {
			return err
		}
		detail := map[string]any{}
		if c.Name != nil {
			key.Name, detail["name"] = *c.Name, *c.Name
		}
		if c.Permissions != nil {
			if !covers(key.Permissions, c.Permissions) {
				if err := s.stepUp(ctx, tx); err != nil {
					return err
				}
			}
			key.Permissions, detail["permissions"] = c.Permissions, c.Permissions
		}
		permissions, err := encode(key.Permissions)
		if err != nil {
			return err
		}
		if err := New(tx).updateKey(ctx, updateKeyParams{ID: id, Name: key.Name, Permissions: permissions}); err != nil {
			return fmt.Errorf("update API key: %w", err)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "apikey.update", Object: object(id), Detail: detail})
	})
	s.addUse(&key)
	return key, err
}

// Delete revokes the key: from the end of the call on it is refused everywhere.
// Until it would have expired, whoever still uses it is in the owner's log.
func (s *Service) Delete(ctx context.Context, userID, id int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		gone, err := New(tx).deleteKey(ctx, deleteKeyParams{ID: id, UserID: userID})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return errNotFound()
		}
		if err != nil {
			return fmt.Errorf("delete API key: %w", err)
		}
		if err := New(tx).forgetRevoked(ctx, s.Now().UnixMilli()); err != nil {
			return fmt.Errorf("forget revoked API keys: %w", err)
		}
		err = New(tx).insertRevoked(ctx, insertRevokedParams{TokenHash: gone.TokenHash, KeyID: id, UserID: userID, ExpiresAt: gone.ExpiresAt})
		if err != nil {
			return fmt.Errorf("remember a revoked API key: %w", err)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "apikey.delete", Object: object(id), Detail: map[string]any{"name": gone.Name},
		})
	})
}

// Get returns the user's key, or the fault NotFound("apikey").
func (s *Service) Get(ctx context.Context, userID, id int64) (APIKey, error) {
	key, err := get(ctx, s.DB.Reader(), userID, id)
	s.addUse(&key)
	return key, err
}

// List returns a page of the user's keys, newest first, and their number.
// Expired ones are listed until they are deleted.
func (s *Service) List(ctx context.Context, userID int64, page web.Page) (keys []APIKey, total int64, err error) {
	q := New(s.DB.Reader())
	if total, err = q.countKeys(ctx, userID); err != nil {
		return nil, 0, fmt.Errorf("count API keys: %w", err)
	}
	const step = 50 // each may have a hundred permissions
	rows, _, err := web.Fill(page, step, func(r *listKeysRow) int { return 500 + len(r.Permissions) }, func(most, skip int64) ([]listKeysRow, error) {
		return q.listKeys(ctx, listKeysParams{UserID: userID, PageLimit: most, PageOffset: skip})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list API keys: %w", err)
	}
	for _, r := range rows {
		key, err := fromRow(row(r))
		if err != nil {
			return nil, 0, err
		}
		s.addUse(&key)
		keys = append(keys, key)
	}
	return keys, total, nil
}

func (s *Service) stepUp(ctx context.Context, q sqldb.Querier) error {
	if s.StepUp == nil || access.From(ctx) == nil {
		return nil
	}
	return s.StepUp.RequireStepUp(ctx, q)
}

func get(ctx context.Context, q sqldb.Querier, userID, id int64) (APIKey, error) {
	r, err := New(q).getKey(ctx, getKeyParams{ID: id, UserID: userID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return APIKey{}, errNotFound()
	}
	if err != nil {
		return APIKey{}, fmt.Errorf("read API key: %w", err)
	}
	return fromRow(r)
}

func errNotFound() error { return fault.NotFound(access.Noun("apikey_id")) }

func object(id int64) string { return fmt.Sprintf("apikey %d", id) }
