// Package providertest is GitHub, Weixin and an OpenID Connect provider for
// tests: local servers that take and refuse what the real ones do, and fail in
// the ways that the real ones fail when they are told to.
package providertest
