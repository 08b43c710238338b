// Package dbtest runs a test on both engines, each test on a database of its
// own that is migrated already.
//
// SQLite databases are copies of one migrated file. PostgreSQL databases are
// made from one migrated template on a private server, which is started from
// the installed binaries once per test process, with fsync off, and ends with
// the process however that ends. When no server is installed the PostgreSQL
// half fails under CI=true and elsewhere says what to install.
package dbtest
