// Package identity owns people: users, their passwords, codes and sessions.
//
//	POST   /auth/general   login, register, activate-user, request-reset-password,
//	                       reset-password (wire.md section 3)
//	GET    /auth/general   whether a user name is free
//	GET    /auth/status    who is signed in, if anybody
//	POST   /auth/logout    ends the session on every node
//	GET    /auth/profile   the user, the session and the ways to sign in
//	POST   /auth/step-up   the password again, for what needs a fresh proof
//	GET    /auth/third-party-bindings, DELETE …/{provider}
//	POST   /auth/setup     the first administrator; GET /setup is its page
//	GET    /apiv1/users/{user_id}/sessions, DELETE …, DELETE …/{session_id}
//	POST   /apiv1/users/{user_id}/password
//
// A user is INACTIVE until the e-mail address is confirmed, then ACTIVE, or
// DISABLED by an administrator; only ACTIVE users can sign in, and disabling
// ends every session. E-mail addresses are compared in lower case; a user who
// signs in with a passkey or through a provider may have none.
//
// A session is a random id of 256 bits in a cookie, of which the database keeps
// the SHA-256 digest. It lives 30 days from its last use; a use is written down
// at most once an hour. Signing in replaces the session of the browser; every
// gain of rights (StepUp) and RefreshSession change its id.
//
// Nothing tells whether an address has an account: a request to register or to
// reset is a row that a job looks at, so the answer is given before anybody
// knows; a refused password or code costs the same hashes, rows and commits
// with and without an account. Codes of 6 digits are kept as HMACs under a
// sealed key. Wrong passwords, wrong codes and requests are counted per account
// and per address; right passwords are not limited beyond the queue for hashing
// (decisions.md section 8.2, docs/decisions/0013).
//
// Other areas add ways to sign in: they call SignIn and StepUp with the Method
// of their proof, and tell of passkeys and bindings through Factors.
package identity
