// Package outbound is the one place from which the server calls others over
// HTTP: certificate authorities, webhook receivers, DNS providers.
//
// Whoever may name a URL could otherwise use the server as a way into the
// network it stands in. A client of this package therefore decides about the
// address at the moment it is dialled, after every name was resolved, so that
// a name which pointed to a public address when it was stored cannot point to
// the loopback interface when it is used. It follows no redirects, takes no
// proxy from the environment, keeps no cookies and spends bounded time and
// memory on every call.
//
// What an upstream says never reaches a user from here: errors are one of the
// values of this package, and Public turns any error into a fixed sentence.
package outbound
