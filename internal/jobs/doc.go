// Package jobs is the seam to the job engine, River on both databases.
//
// An area declares argument types and handlers in its jobs.go and registers
// them on a Registry; app builds one Engine from it. Insert enqueues with the
// caller's transaction, so that a job exists exactly when its cause does.
//
// Every job may run twice: its process may die after the work and before the
// job is marked as done. Handlers are therefore small, repeatable steps that
// record what they did. A job that runs longer than its time limit is
// cancelled; a job of a process that died is taken up again at the next start
// on SQLite, where one process alone serves a data folder, and after
// rescueAfter on PostgreSQL.
package jobs
