// Package providers lets people sign in with an account elsewhere: GitHub,
// Weixin, any OpenID Connect provider of the settings, or a Solana wallet.
//
//	GET  /auth/providers                       what there is to sign in with
//	GET  /auth/github, …/weixin, …/oidc/{name} sends the browser to the provider
//	GET  …/callback                            where the provider sends it back to
//	GET  /auth/solana                          a message for the wallet to sign, then the sign-in
//	POST /auth/third-party-bindings/{provider} a signed-in user begins to bind an account
//
// The list of bindings and their removal are routes of package identity, which
// asks this one through identity.Factors.
//
// An account elsewhere is known by who gives out its id and by that id (issuer
// and subject), never by a name or an e-mail address: both can change hands. It
// is bound to one user. Signing in with one that is unknown makes an ACTIVE user
// for it; an address that has a user already is refused, whoever vouches for it,
// because the address alone must not give anybody the account.
//
// What is begun is an attempt, a row for ten minutes. It is good for one answer,
// right or wrong, in the browser that began it (a cookie of its own), for one
// purpose; binding is tied to the session as well. The database holds digests
// alone: PKCE's verifier, the nonces of ID tokens and those of messages are
// derived from the cookie when they are needed.
//
// All calls go through package outbound and never happen in a transaction. What
// a provider says in its errors is repeated to nobody, and Weixin's secret,
// which stands in URLs, is in no error.
package providers
