// Package client speaks the server's HTTP API as a device does (api.md,
// wire.md sections 1 to 4, 6 and 7): device login, registration, tokens that
// rotate, updates, certificates, install-config and notify.
//
// Client sends single requests. Device adds the device's session: it refreshes
// the access token in time, stores a rotated refresh token before the new
// access token is used, and repeats a refused request once with fresh tokens.
package client
