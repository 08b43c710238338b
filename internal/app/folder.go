package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/migrate"
)

// folderLock keeps a second process from doing the same on one data folder. It
// ends with the process, however that ends.
type folderLock struct{ file *os.File }

var errLocked = errors.New("locked by another process")

// lockFile takes the lock; with wait it waits for the other process.
func lockFile(path string, wait bool) (*folderLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &folderLock{f}, nil
}

func (l *folderLock) release() { _ = l.file.Close() }

// prepareFolder makes the data folder, for its owner alone.
func prepareFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	return nil
}

// ownersAlone makes the database file, if it is not there, so that only its
// owner reads it, whatever the mode of a folder that was there before. SQLite
// gives its further files the same mode. One that is there is not opened:
// closing it would drop the locks that this process has on it (POSIX fcntl).
func ownersAlone(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the database file: %w", err)
	}
	return f.Close()
}

// lockForServing refuses a second server on one data folder.
func lockForServing(data string) (*folderLock, error) {
	l, err := lockFile(filepath.Join(data, "serve.lock"), false)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("another certharbor serves the data folder %s already; stop it first, or give this one another --data", data)
	}
	return l, err
}

// OpenDatabase opens and migrates the database of the settings. It serves the
// server and the operator commands, which may run beside each other.
func OpenDatabase(ctx context.Context, c Config, log *slog.Logger) (*sqldb.DB, error) {
	return openDatabase(ctx, c, log, nil)
}

func openDatabase(ctx context.Context, c Config, log *slog.Logger, commitFault func() bool) (*sqldb.DB, error) {
	if err := prepareFolder(c.Data); err != nil {
		return nil, err
	}
	if c.DB == "" {
		if err := ownersAlone(c.databasePath()); err != nil {
			return nil, err
		}
	}
	db, err := sqldb.Open(ctx, sqldb.Config{URL: c.DB, Path: c.databasePath(), Log: log, CommitFault: commitFault})
	if err != nil {
		return nil, err
	}
	if err := migrateLocked(ctx, c, db); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func migrateLocked(ctx context.Context, c Config, db *sqldb.DB) error {
	l, err := lockFile(filepath.Join(c.Data, "migrate.lock"), true)
	if err != nil {
		return err
	}
	defer l.release()
	return migrate.Up(ctx, db, func(ctx context.Context) error { return jobs.Migrate(ctx, db) })
}
