package app

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// keyCheck is a sealed value that only the database's own master key opens. It
// keeps a lost key file from being replaced by a fresh one in silence, and a
// restored database from running with the key of another.
const (
	keyCheckName = "master_key_check"
	keyCheckText = "this database belongs to this master key"
)

func keyCheckPlace() seal.Place { return seal.Place{Table: "settings", Row: 1, Column: keyCheckName} }

// openKeyring loads the master key, which is made only for a database that has
// never had one.
func openKeyring(ctx context.Context, db *sqldb.DB, path string) (*seal.Keyring, error) {
	check, err := readKeyCheck(ctx, db.Reader())
	if err != nil {
		return nil, err
	}
	if check == nil {
		ring, err := seal.Load(path)
		if err != nil {
			return nil, err
		}
		if check, err = writeKeyCheck(ctx, db, ring); err != nil {
			return nil, err
		}
		return ring, openKeyCheck(ring, check, path)
	}
	ring, err := seal.Read(path)
	if err != nil {
		return nil, fmt.Errorf("this database has a master key, and it cannot be read; restore the file from your backup: %w", err)
	}
	return ring, openKeyCheck(ring, check, path)
}

func openKeyCheck(ring *seal.Keyring, check []byte, path string) error {
	text, err := ring.Open(keyCheckPlace(), check)
	if err != nil || string(text) != keyCheckText {
		return fmt.Errorf("the master key in %s is not the one of this database; restore the right file from your backup", path)
	}
	return nil
}

func readKeyCheck(ctx context.Context, q sqldb.Querier) ([]byte, error) {
	var check []byte
	err := q.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = $1", keyCheckName).Scan(&check)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, fmt.Errorf("read master key check: %w", err)
	}
	return check, nil
}

// writeKeyCheck stores the check, or returns the one that another node stored
// in the meantime.
func writeKeyCheck(ctx context.Context, db *sqldb.DB, ring *seal.Keyring) ([]byte, error) {
	sealed, err := ring.Seal(keyCheckPlace(), []byte(keyCheckText))
	if err != nil {
		return nil, fmt.Errorf("seal master key check: %w", err)
	}
	var stored []byte
	err = db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", keyCheckName, sealed); err != nil {
			return err
		}
		var err error
		stored, err = readKeyCheck(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store master key check: %w", err)
	}
	return stored, nil
}
