package identity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// codeKeys holds the key under which codes are hashed. Six digits are guessed
// in a second from a plain digest, and in hours from a slow one: under a key
// that the master key seals, the database alone tells nothing about them.
type codeKeys struct {
	db      *sqldb.DB
	keyring *seal.Keyring
	mu      sync.Mutex
	key     []byte
}

var errNoKeyring = errors.New("this process has no master key")

// get returns the key, which the first node that needs it makes for all.
func (k *codeKeys) get(ctx context.Context, now int64) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	if k.keyring == nil {
		return nil, errNoKeyring
	}
	place := seal.Place{Table: "code_keys", Row: 1, Column: "key_sealed"}
	sealed, err := New(k.db.Reader()).readCodeKey(ctx, 1)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		var fresh []byte
		if fresh, err = k.keyring.Seal(place, seal.NewDataKey()); err != nil {
			return nil, fmt.Errorf("seal the key of codes: %w", err)
		}
		err = k.db.InTx(ctx, func(tx *sqldb.Tx) error {
			if err := New(tx).insertCodeKey(ctx, insertCodeKeyParams{ID: 1, KeySealed: fresh, CreatedAt: now}); err != nil {
				return err
			}
			sealed, err = New(tx).readCodeKey(ctx, 1) // another node may have been faster
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of codes: %w", err)
	}
	if k.key, err = k.keyring.Open(place, sealed); err != nil {
		return nil, fmt.Errorf("open the key of codes: %w", err)
	}
	return k.key, nil
}

// had is the key if it has been used in this process, or nil: it makes none, so
// it can be asked within a transaction.
func (k *codeKeys) had() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.key
}

// Prepare makes or reads the keys of the area, which nothing can do within a
// transaction.
func (s *Service) Prepare(ctx context.Context) error {
	_, err := s.codeKeys.get(ctx, s.now().UnixMilli())
	return err
}
