package apikeys

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// errKey is the one answer for a token that is malformed, unknown, expired,
// revoked, or of a user who is not ACTIVE: which of these it is, is for the
// owner alone.
var errKey = fault.Unauthorized("The API key is unknown, expired or revoked.")

// known is what is kept of a key between requests.
type known struct {
	decoded atomic.Pointer[decoded]
	usedAt  atomic.Int64 // Unix ms
	written atomic.Int64 // the use that the database knows, Unix ms
}

// decoded are the permissions of one version of a key. Versions of an id never
// come back, so what was decoded once stays right.
type decoded struct {
	version int64
	grants  []access.Grant
}

// Authenticate returns the caller that the token stands for, limited to the
// permissions of the key, and notes the use. A token that is not good is
// 401/5018. The caller's grants are shared and must not be changed.
func (s *Service) Authenticate(ctx context.Context, token string) (*access.Caller, error) {
	if len(token) != tokenLength {
		return nil, errKey
	}
	key, err := New(s.DB.Reader()).keyByHash(ctx, seal.HashToken(token))
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, s.refuseRevoked(ctx, token)
	}
	if err != nil {
		return nil, fmt.Errorf("look up an API key: %w", err)
	}
	now := s.Now().UnixMilli()
	if key.ExpiresAt <= now {
		return nil, s.refuse(ctx, key.UserID, key.ID, "expired")
	}
	k, granted, err := s.remember(key.ID, key.Version, key.Permissions)
	if err != nil {
		return nil, err
	}
	k.usedAt.Store(now)
	return &access.Caller{Kind: access.KindKey, UserID: key.UserID, KeyID: key.ID, Grants: granted}, nil
}

// refuseRevoked refuses a token that stands for no key. That of a key which was
// revoked is worth the owner's attention: somebody has it still.
func (s *Service) refuseRevoked(ctx context.Context, token string) error {
	key, err := New(s.DB.Reader()).revokedByHash(ctx, seal.HashToken(token))
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		return errKey
	case err != nil:
		return fmt.Errorf("look up a revoked API key: %w", err)
	}
	return s.refuse(ctx, key.UserID, key.KeyID, "revoked")
}

// refuse records that a key was used that is not good any more.
func (s *Service) refuse(ctx context.Context, userID, id int64, reason string) error {
	caller := &access.Caller{Kind: access.KindKey, UserID: userID, KeyID: id}
	s.Audit.Refuse(access.With(ctx, caller), audit.Entry{
		UserID: userID, Action: "apikey.refused", Object: object(id), Detail: map[string]any{"reason": reason},
	})
	return errKey
}

// remember returns what is known of the key and its grants, decoding them when
// the version is new.
func (s *Service) remember(id, version int64, permissions string) (*known, []access.Grant, error) {
	entry, ok := s.known.Load(id)
	if !ok {
		entry, _ = s.known.LoadOrStore(id, &known{})
	}
	k := entry.(*known)
	if d := k.decoded.Load(); d != nil && d.version == version {
		return k, d.grants, nil
	}
	list, err := decode(id, permissions)
	if err != nil {
		return nil, nil, err
	}
	d := &decoded{version: version, grants: grants(list)}
	k.decoded.Store(d)
	return k, d.grants, nil
}

// keyByID is keyByHash by the id. On PostgreSQL it keeps the key as it is until
// the transaction ends; SQLite has one writer at a time.
const keyByID = `SELECT k.version, k.expires_at, k.permissions
	FROM api_keys k JOIN users u ON u.id = k.user_id
	WHERE k.id = $1 AND u.status = 'ACTIVE'`

// Check tells within tx whether the key with which the caller of ctx was let in
// is still good, and holds it so until tx ends: revoking it waits, or was
// first. A revoked or expired key is 401/5018, one whose permissions changed
// meanwhile 403/5022.
func (s *Service) Check(ctx context.Context, tx *sqldb.Tx, keyID int64) error {
	query := keyByID
	if tx.Dialect() == sqldb.Postgres {
		query += " FOR SHARE OF k"
	}
	var version, expiresAt int64
	var permissions string
	err := tx.QueryRowContext(ctx, query, keyID).Scan(&version, &expiresAt, &permissions)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return errKey
	}
	if err != nil {
		return fmt.Errorf("check API key %d: %w", keyID, err)
	}
	if expiresAt <= s.Now().UnixMilli() {
		return errKey
	}
	_, now, err := s.remember(keyID, version, permissions)
	if err != nil {
		return err
	}
	if c := access.From(ctx); c != nil && c.KeyID == keyID && !slices.EqualFunc(c.Grants, now, sameGrant) {
		return fault.Forbidden("The permissions of the API key were changed meanwhile; try again.")
	}
	return nil
}

func sameGrant(a, b access.Grant) bool {
	return a.Scope == b.Scope && a.Object == b.Object && slices.Equal(a.Actions, b.Actions)
}
