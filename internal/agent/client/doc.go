// Package client speaks the server's HTTP API as a device does (api.md,
// wire.md sections 1 to 4, 6 and 7): device login, registration, tokens that
// rotate, updates, certificates, install-config and notify.
//
// Client sends single requests. Device adds the device's session: it refreshes
// the access token in time and repeats a refused request once with fresh tokens.
// A refresh survives a kill at any point: a request id is stored before the
// refresh token is sent, the new pair before it is used, and between the two the
// same call is answered again (docs/decisions/0010-lost-answers.md).
package client
