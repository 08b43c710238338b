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

// Deps are what a Log needs. DB, Keys and Now are required.
type Deps struct {
	DB     *sqldb.DB
	Keys   *seal.Keyring
	Now    func() time.Time
	Log    *slog.Logger // nil: discarded
	System string       // the actor where nobody calls; "": "system"
	// Stamp is the file, outside the database, that knows of the log; "": none.
	Stamp string
	// Used reports whether the rest of the database shows that it is not new, so
	// that its log must be there; nil: unknown.
	Used func(ctx context.Context, q sqldb.Querier) (bool, error)
}

// Open returns the log of the database. Its key, and nobody's chains, are made
// by the first process that opens it. A log that was there and is gone, or whose
// key is another one, is a *[Lost].
func Open(ctx context.Context, d Deps) (*Log, error) {
	l := prepare(d)
	return l, l.open(ctx)
}

func prepare(d Deps) *Log {
	l := &Log{db: d.DB, keys: d.Keys, now: d.Now, log: d.Log, system: cmp.Or(d.System, actorSystem), stampPath: d.Stamp, used: d.Used}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

func (l *Log) open(ctx context.Context) (err error) {
	if l.stamp, err = readStamp(l.keys, l.stampPath); err != nil && !l.anyhow {
		return err
	}
	sealed, err := readKey(ctx, l.db.Reader())
	if sqldb.Is(err, sqldb.ErrNotFound) {
		sealed, err = l.makeKey(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the key of the audit log: %w", err)
	}
	if l.key, err = l.keys.Open(keyPlace(), sealed); err != nil {
		return lost("its key was exchanged: %v", err)
	}
	if l.anyhow {
		l.stamp = nil
		return nil
	}
	if err := l.compare(ctx); err != nil {
		return err
	}
	if l.stamp == nil {
		if err := l.Keep(ctx); err != nil { // a folder that cannot be written to: the database alone must do
			l.log.WarnContext(ctx, "the stamp of the audit log could not be written", "error", err)
		}
	}
	return nil
}

func readKey(ctx context.Context, q sqldb.Querier) (sealed []byte, err error) {
	err = q.QueryRowContext(ctx, readKeySQL, keyID).Scan(&sealed)
	return sealed, err
}

// makeKey stores a key together with the statement that there is one and the
// empty chains of nobody's log, so that a chain that is gone is missed from the
// first day; or it returns the key that another process stored at the same time.
func (l *Log) makeKey(ctx context.Context) (sealed []byte, err error) {
	key := seal.NewDataKey()
	fresh, err := l.keys.Seal(keyPlace(), key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	err = l.db.InTx(ctx, func(tx *sqldb.Tx) error {
		stored, err := tx.ExecContext(ctx, insertKeySQL, keyID, fresh, l.now().UnixMilli())
		if err != nil {
			return err
		}
		n, err := stored.RowsAffected()
		if err == nil && n == 1 {
			err = l.first(ctx, tx, key)
		}
		if err != nil {
			return err
		}
		sealed, err = readKey(ctx, tx)
		return err
	})
	return sealed, err
}

// first makes what a new log begins with.
func (l *Log) first(ctx context.Context, tx *sqldb.Tx, key []byte) error {
	if !l.anyhow {
		if err := l.unused(ctx, tx); err != nil {
			return err
		}
	}
	for lane := range int64(lanes) {
		h := head{chain: chain{lane: lane}, mac: []byte{}}
		if _, err := tx.ExecContext(ctx, insertHeadSQL, h.user, h.lane, h.mac, h.sum(key)); err != nil {
			return err
		}
	}
	return state(ctx, tx, setStatementSQL, l.keys, key)
}
