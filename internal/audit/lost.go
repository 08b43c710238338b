package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Lost is the error of a log that was there and is gone, or whose key is.
type Lost struct{ What string }

// Error implements error.
func (l *Lost) Error() string {
	return "the audit log was removed or exchanged: " + l.What +
		". If you restored a backup or began anew, run: certharbor audit accept --reason '…'. If not, find out who has changed the database, and restore a backup"
}

func lost(what string, args ...any) *Lost { return &Lost{fmt.Sprintf(what, args...)} }

// The statement that the log has a key stands in another table, sealed under the
// master key: with the database alone it can be removed, but not made.
const (
	statementName      = "audit_key"
	readStatementSQL   = `SELECT value FROM settings WHERE name = $1`
	insertStatementSQL = `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	setStatementSQL    = `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	anyHeadSQL         = `SELECT user_id FROM audit_heads WHERE user_id >= $1 ORDER BY user_id LIMIT 1`
	anyRowSQL          = `SELECT user_id FROM audit_log WHERE user_id >= $1 ORDER BY user_id LIMIT 1`
)

func statementPlace() seal.Place { return seal.Place{Table: "settings", Row: 2, Column: statementName} }

// fingerprint names the key without giving it away.
func fingerprint(key []byte) string {
	sum := sha256.Sum256(append([]byte("certharbor audit key 1"), key...))
	return hex.EncodeToString(sum[:16])
}

// statement is the fingerprint that the database states; "" when it states none.
func statement(ctx context.Context, q sqldb.Querier, keys *seal.Keyring) (string, error) {
	var sealed []byte
	err := q.QueryRowContext(ctx, readStatementSQL, statementName).Scan(&sealed)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the statement of the audit log: %w", err)
	}
	text, err := keys.Open(statementPlace(), sealed)
	if err != nil {
		return "", lost("the statement that it has a key was exchanged")
	}
	return string(text), nil
}

// state writes the statement.
func state(ctx context.Context, tx *sqldb.Tx, query string, keys *seal.Keyring, key []byte) error {
	sealed, err := keys.Seal(statementPlace(), []byte(fingerprint(key)))
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	_, err = tx.ExecContext(ctx, query, statementName, sealed)
	return err
}

// unused makes sure that a database without a key has never had one. It looks
// within tx, so that the key of a node that started at the same moment is not
// taken for one that was removed.
func (l *Log) unused(ctx context.Context, tx *sqldb.Tx) error {
	stated, err := statement(ctx, tx, l.keys)
	switch {
	case err != nil:
		return err
	case stated != "":
		return lost("the database states that it has a key, and the key is gone")
	case l.stamp != nil:
		return lost("this node has seen its key, and the key is gone")
	}
	for _, query := range []string{anyHeadSQL, anyRowSQL} {
		var user int64
		err := tx.QueryRowContext(ctx, query, 0).Scan(&user)
		if err == nil {
			return lost("there are entries, and the key is gone")
		}
		if !sqldb.Is(err, sqldb.ErrNotFound) {
			return fmt.Errorf("look for entries: %w", err)
		}
	}
	if l.used == nil {
		return nil
	}
	used, err := l.used(ctx, tx)
	if err == nil && used {
		err = lost("there are users, and no log of them")
	}
	return err
}

// compare makes sure that the key is the one that the database and this node
// state. A database from before there were statements gets one.
func (l *Log) compare(ctx context.Context) error {
	stated, err := statement(ctx, l.db.Reader(), l.keys)
	switch own := fingerprint(l.key); {
	case err != nil:
		return err
	case l.stamp != nil && l.stamp.Key != own:
		return lost("its key is another one than this node has seen")
	case stated == "" && l.stamp != nil:
		return lost("the statement that it has a key is gone")
	case stated != "" && stated != own:
		return lost("its key is another one than the database states")
	case stated == "":
		return l.db.InTx(ctx, func(tx *sqldb.Tx) error { return state(ctx, tx, insertStatementSQL, l.keys, l.key) })
	}
	return nil
}
