// Package authdns looks for TXT records at all authoritative name servers of a
// zone: a proof that somebody controls a name.
//
// The zone and its servers are found through the operator's resolvers. Every
// address of every server is asked directly; each server must be heard, with
// authority, and all must say the same. A CNAME is not followed, and a record
// that any other label beside it has as well comes of a wildcard and proves
// nothing. What cannot be looked up is an error, never an absence.
//
// Whoever owns a zone chooses the addresses of its servers: they are judged by
// outbound when they are dialled, and their port is 53. No text of a server
// reaches a user from here.
package authdns
