package audit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	readKeySQL   = `SELECT key_sealed FROM audit_keys WHERE id = $1`
	insertKeySQL = `INSERT INTO audit_keys (id, key_sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`
)

// keyID is the row of the one key there is.
const keyID = 1

func keyPlace() seal.Place { return seal.Place{Table: "audit_keys", Row: keyID, Column: "key_sealed"} }

// Deps are what a Log needs; all but Log and System are required.
type Deps struct {
	DB     *sqldb.DB
	Keys   *seal.Keyring
	Now    func() time.Time
	Log    *slog.Logger // nil: discarded
	System string       // the actor where nobody calls; "": "system"
}

// Open returns the log of the database. Its key, and nobody's chains, are made
// by the first process that opens it.
func Open(ctx context.Context, d Deps) (*Log, error) {
	l := &Log{db: d.DB, now: d.Now, log: d.Log, system: cmp.Or(d.System, actorSystem)}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	sealed, err := readKey(ctx, d.DB.Reader())
	if sqldb.Is(err, sqldb.ErrNotFound) {
		sealed, err = l.makeKey(ctx, d.Keys)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the audit log: %w", err)
	}
	if l.key, err = d.Keys.Open(keyPlace(), sealed); err != nil {
		return nil, fmt.Errorf("open the key of the audit log: %w", err)
	}
	return l, nil
}

func readKey(ctx context.Context, q sqldb.Querier) (sealed []byte, err error) {
	err = q.QueryRowContext(ctx, readKeySQL, keyID).Scan(&sealed)
	return sealed, err
}

// makeKey stores a key together with the empty chains of nobody's log, so that
// a chain that is gone is missed from the first day; or it returns the key that
// another process stored meanwhile.
func (l *Log) makeKey(ctx context.Context, keys *seal.Keyring) (sealed []byte, err error) {
	key := seal.NewDataKey()
	fresh, err := keys.Seal(keyPlace(), key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	err = l.db.InTx(ctx, func(tx *sqldb.Tx) error {
		stored, err := tx.ExecContext(ctx, insertKeySQL, keyID, fresh, l.now().UnixMilli())
		if err != nil {
			return err
		}
		n, err := stored.RowsAffected()
		for lane := int64(0); lane < lanes && n == 1 && err == nil; lane++ {
			h := head{chain: chain{lane: lane}, mac: []byte{}}
			_, err = tx.ExecContext(ctx, insertHeadSQL, h.user, h.lane, h.mac, h.sum(key))
		}
		if err != nil {
			return err
		}
		sealed, err = readKey(ctx, tx)
		return err
	})
	return sealed, err
}
