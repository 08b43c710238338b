// Package ratelimit counts what may happen only so often, shared by all nodes.
//
// A bucket is a name such as "login.address 192.0.2.1". Its window begins with
// the first hit and ends a fixed time later; after the limit is reached every
// further hit is refused until then (429/5013 with Retry-After, decisions.md
// section 8.2). The counters are rows, so a restart forgets nothing.
//
// Whoever counts failures asks Check before the work and Take after the
// failure: Take is atomic and refuses by itself, so that parallel attempts
// never learn more answers than the limit allows.
package ratelimit
