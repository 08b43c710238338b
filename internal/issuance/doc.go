// Package issuance obtains certificates from ACME authorities: it owns the
// attempts, their history, the HTTP-01 answers and automatic renewal.
//
//	POST   …/certificates/{id}/issues            start an attempt, or show the one under way
//	GET    …/certificates/{id}/issues            history, also as …/issues/history
//	GET    …/certificates/{id}/issues/{issue_id} one attempt with its log
//	DELETE …/certificates/{id}/issues/{issue_id} cancel
//	GET    /.well-known/acme-challenge/{token}   HTTP-01 (RFC 8555 section 8.3)
//
// # States
//
//	PENDING → PROCESSING → SUCCESS | FAILED
//	PENDING, PROCESSING → CANCELLED
//
// An attempt is one row of issuances. One job runs it, step by step, and saves
// every step before the next begins:
//
//	prepare → account → order → authorize → validate → finalize → download
//
// Each step may be repeated after a crash. A save is an UPDATE that names the
// version it read, so that of two workers on one attempt the second stops, and
// a lease keeps a second one from calling the authority at all while the first
// is alive. On SQLite, where one process alone serves a data folder, a lease of
// another process is that of a dead one and counts for nothing.
//
// The order's URL is recorded at once: from then on the same order goes on,
// with the same CSR and key, whatever happens. A second order is placed only
// when the first one's answer never arrived in the database, or when the
// authority has lost or spoiled the order before it was finalised. The last
// save stores the certificate, the history row, the device signals and the
// webhook rows in one transaction.
package issuance
