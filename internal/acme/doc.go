// Package acme speaks ACME (RFC 8555) to a certificate authority, one step per
// call.
//
// Every method of Client is one step of an issuance. It takes what an earlier
// step gave (URLs, the account key, a CSR), keeps nothing that matters in
// memory and may be repeated after a crash: registering again finds the
// account, accepting a challenge twice is one acceptance, finalising twice
// gives the order as it stands. Nothing polls inside a step; Waiter does that,
// exactly as Retry-After says.
//
//	Register → NewOrder → Authorizations → HTTP01, Accept → Order … → Finalize → Order … → Certificate
//
// The authority is foreign and may be hostile. Every answer passes one gate
// (gate.go) that bounds time and size, checks each URL before it is used and
// lets only the directory's own origin profit from exceptions of the address
// guard. Every failure is a *Problem: one line fit for a user, a Class that
// says what to do about it, and the cause for the log. Tokens are checked
// before they can become a path; key authorizations, keys and bindings never
// reach a log.
//
// The protocol's signatures, nonces and encodings are those of
// github.com/mholt/acmez/v3/acme. Its own waiting, repeating and its following
// of links are switched off, since here they belong to the caller.
package acme
