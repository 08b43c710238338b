// Package names keeps whose a name is: a claim says that a user holds a name
// and all names below it, and every order at an authority asks here first.
//
// # Rules
//
// The nearest claim at or above a name decides. A claim is made by the first
// certificate that is issued for a registrable domain (policy first-come), by a
// TXT record at _certharbor.<name> that holds the token of user and name, or by
// an administrator. While one user holds a part of a registrable domain, no
// other user's HTTP-01 validation counts there that this server answers: it
// proves only that the name points here. The hosts of the server itself are for
// administrators. Accounts at certificate authorities of this server neither
// read nor make claims.
//
// # Tables
//
//	name_claims  one row per user and name, PENDING → HELD → PENDING when it is lost; CLASH: certificates from before claims were kept
//	name_grants  who else may order below a claim
//	name_keys    the key from which the tokens of records are made
//	name_steps   what is done once in the life of a database
//
// # Who asks
//
// Package certs asks when names are given to a record, package issuance when an
// attempt starts, before a challenge is published and before an order is
// finalised. Whoever asks in order to act holds the lock of the registrable
// domain (Service.MayOrder), and so does everyone who changes claims: of two
// nodes one goes first. An order that would claim a domain holds it from the
// moment it is about to be finalised; the claim is for good when the
// certificate is stored, and gone when the attempt ends without one.
package names
