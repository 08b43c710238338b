package sqldb

import (
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The classes of database errors; ask with Is.
var (
	ErrNotFound   = errors.New("no such row")
	ErrConflict   = errors.New("a unique key is taken")
	ErrForeignKey = errors.New("a foreign key does not hold")
	ErrFull       = errors.New("the disk is full")
	ErrBroken     = errors.New("the database can no longer be written")
	ErrUncertain  = errors.New("the commit was not confirmed")
	errRetry      = errors.New("the transaction lost a race and may be repeated")
)

// Is reports whether err belongs to the class, whichever engine it came from.
func Is(err, class error) bool {
	return err != nil && (errors.Is(err, class) || errors.Is(classOf(err), class))
}

// classOf turns driver codes into a class, once for the whole program.
func classOf(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return sqliteClass(e.Code())
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return postgresClass(e.Code)
	}
	return nil
}

func sqliteClass(code int) error {
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return ErrConflict
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return ErrForeignKey
	}
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrBroken
	}
	return nil
}

// postgresClass takes the codes of PostgreSQL's appendix A.
func postgresClass(code string) error {
	switch code {
	case "23505":
		return ErrConflict
	case "23503":
		return ErrForeignKey
	case "53100":
		return ErrFull
	case "40001", "40P01":
		return errRetry
	}
	return nil
}
