// Package sqldb opens the database, SQLite or PostgreSQL, and runs transactions.
//
// One query text serves both engines: $1 placeholders, ON CONFLICT, RETURNING,
// BIGINT milliseconds, JSON in TEXT. What differs stands behind Dialect.
//
// SQLite runs in WAL mode with synchronous=FULL: one writer connection whose
// transactions begin immediate, and a separate pool of readers that never wait
// for it. PostgreSQL has one pool, through pgx.
//
// A service owns the transaction (DB.InTx) and passes the Tx to the store
// functions of its own and of other areas; these take a Querier and never begin
// one themselves. No network call happens inside a transaction. What must run
// after the commit, and may be lost, is registered with Tx.AfterCommit; what
// must not be lost is a row.
//
// After a failed sync nothing more is acknowledged: the DB is broken for good
// and the process has to be restarted (see Broken). On SQLite this holds
// whoever wrote, the job engine included, and for the syncs of checkpoints,
// which are therefore made here and not by SQLite inside of a commit.
package sqldb
