// Package audit records who did what, in the transaction that did it, and
// proves that nobody changed the record afterwards.
//
// Entries are only appended; triggers of both databases refuse anything else.
// They hold no secret: Detail is for ids, names and reasons. Every entry belongs
// to the log of one user, or to nobody's (user 0): what happened before anybody
// was known.
//
//	GET /apiv1/users/{user_id}/audit-log   the caller's own log, newest first
//	GET /apiv1/admin/audit-log             what belongs to no user, or a user's
//
// # The chains
//
// The entries of a user form a chain: each has a number from 1 without gaps and
// a MAC (HMAC-SHA-256) over all of its columns and the MAC before it. The newest
// number and MAC stand in audit_heads under a seal, a MAC of another kind. The
// key is sealed under the master key, so that the database alone is not enough
// to make an entry, or to set a head back to one that is older. Nobody's log has
// [lanes] chains, so that a flood of refusals does not queue for one row, and
// names in an entry of its own ("audit.begin") every user's chain there is.
//
// What a transaction records is appended immediately before its commit
// (sqldb.Tx.AtEnd), chain after chain in one order: the rows of audit_heads are
// locked after everything else, and for no longer than the commit takes.
// docs/decisions/0016-audit.md has the reasons and what [Verify] finds.
package audit
