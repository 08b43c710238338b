// Package identity owns people: users, their passwords and their sessions.
//
//	POST /auth/general   action login: sets the session cookie (wire.md section 3)
//	GET  /auth/status    who is signed in, if anybody
//	POST /auth/logout    ends the session on every node
//	GET  /auth/profile   the user and the session
//
// A user is INACTIVE until the e-mail address is confirmed, then ACTIVE, or
// DISABLED by an administrator; only ACTIVE users can sign in, and disabling
// ends every session. E-mail addresses are compared in lower case.
//
// A session is a random id of 256 bits in a cookie, of which the database keeps
// the SHA-256 digest. It lives 30 days from its last use; a use is written down
// at most once an hour. Signing in replaces the session of the browser and
// RefreshSession changes its id.
//
// Wrong passwords are counted per account and per address; right ones are not
// limited beyond the queue for hashing (decisions.md section 8.2). Whether an
// address has an account shows neither in the text nor in the work of a refusal:
// an unknown user's password is hashed as well.
package identity
