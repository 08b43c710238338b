package devices

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// signer holds the keys that sign access tokens. They are rows, sealed, made on
// first use and shared by all nodes; the newest signs, all verify.
type signer struct {
	db      *sqldb.DB
	keyring *seal.Keyring
	now     func() time.Time
	mu      sync.Mutex // one load at a time
	loaded  atomic.Pointer[signingKeys]
}

type signingKeys struct {
	newest string // kid
	byKID  map[string][]byte
	at     time.Time
}

// reloadAfter bounds how often an unknown kid makes us read the table.
const reloadAfter = time.Second

// current returns the keys, of which there is one at least.
func (s *signer) current(ctx context.Context) (*signingKeys, error) {
	if keys := s.loaded.Load(); keys != nil {
		return keys, nil
	}
	return s.load(ctx, time.Time{})
}

// key returns the key with this kid, or nil: another node may have made it
// since we looked.
func (s *signer) key(ctx context.Context, kid string) ([]byte, error) {
	keys, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	if key, ok := keys.byKID[kid]; ok {
		return key, nil
	}
	if keys, err = s.load(ctx, s.now().Add(-reloadAfter)); err != nil {
		return nil, err
	}
	return keys.byKID[kid], nil
}

// load reads the keys unless they were read after fresh.
func (s *signer) load(ctx context.Context, fresh time.Time) (*signingKeys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keys := s.loaded.Load(); keys != nil && keys.at.After(fresh) {
		return keys, nil
	}
	rows, err := New(s.db.Reader()).readSigningKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	if len(rows) == 0 {
		if rows, err = s.first(ctx); err != nil {
			return nil, fmt.Errorf("make the first signing key: %w", err)
		}
	}
	keys := &signingKeys{byKID: make(map[string][]byte, len(rows)), at: s.now()}
	for _, row := range rows {
		key, err := s.keyring.Open(signingKeyPlace(row.ID), row.KeySealed)
		if err != nil {
			return nil, fmt.Errorf("open signing key %d: %w", row.ID, err)
		}
		keys.newest = strconv.FormatInt(row.ID, 10)
		keys.byKID[keys.newest] = key
	}
	s.loaded.Store(keys)
	return keys, nil
}

// first makes key 1, or takes the one of the node that was faster.
func (s *signer) first(ctx context.Context) (rows []signingKeyRow, err error) {
	sealed, err := s.keyring.Seal(signingKeyPlace(1), seal.NewDataKey())
	if err != nil {
		return nil, err
	}
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		q := New(tx)
		if err := q.insertSigningKey(ctx, insertSigningKeyParams{ID: 1, KeySealed: sealed, CreatedAt: s.now().UnixMilli()}); err != nil {
			return err
		}
		rows, err = q.readSigningKeys(ctx)
		return err
	})
	return rows, err
}

func signingKeyPlace(id int64) seal.Place {
	return seal.Place{Table: "device_signing_keys", Row: id, Column: "key_sealed"}
}
