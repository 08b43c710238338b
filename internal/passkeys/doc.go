// Package passkeys owns the public keys with which people sign in without a
// password (Web Authentication Level 2, https://www.w3.org/TR/webauthn-2/).
//
//	POST   /auth/webauthn/register/options  a signed-in user is about to add a passkey
//	POST   /auth/webauthn/register/verify   … and adds it
//	POST   /auth/webauthn/login/options     somebody is about to sign in
//	POST   /auth/webauthn/login/verify      … and is signed in at aal2
//	POST   /auth/webauthn/step-up/options   a session is about to prove its user again
//	POST   /auth/webauthn/step-up/verify    … and is at aal2
//	GET    /auth/webauthn/credentials       the caller's passkeys
//	DELETE /auth/webauthn/credentials/{credential_id}
//	GET    /account                         a page that does all of this in a browser
//
// Options are the JSON that PublicKeyCredential.parseCreationOptionsFromJSON and
// parseRequestOptionsFromJSON take; a verify body is the toJSON of the credential
// that the browser made of them, whose further members are ignored.
//
// A challenge is a row of the database for five minutes. It is good for one
// answer, for one purpose, and for the session, or before there is one the
// browser (a cookie of its own), that asked for it. Every ceremony demands user
// verification, so a passkey is two factors: possession and a PIN or finger.
//
// The relying party is the host of the public address. Browsers take no IP
// addresses there: a server on a loopback address is "localhost" to them, and one
// on any other address has no passkeys until it has a name.
//
// Signing in never asks who it is: the passkey itself says so. An e-mail address
// in login/options is therefore accepted and changes nothing, which is why it
// cannot tell whether it has an account.
package passkeys
