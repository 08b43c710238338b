// Package feed keeps the stream of signals of each device and serves it.
//
// A signal names state that the device must fetch again, never the change
// itself. Whoever changes that state calls Append with its
// own transaction, so a signal exists exactly when its change does.
//
//	GET /apiv1/devices/self/updates   the entries after a cursor, or a long poll
//
// A cursor is the id of an entry, <ms>-<seq>. The first part is the signal's
// ts_ms: Unix milliseconds, growing strictly per device, so that it runs ahead
// of the clock by as many milliseconds as a burst has signals, and does not
// follow a clock that jumps back. The second part counts the entries of the
// stream, from a random number on. Appends of one device queue on the lock of its head row until
// the transaction before them ends: entries become visible in the order of
// their ids, and none appears behind a cursor that was handed out.
//
// The newest Retained entries are kept. A cursor before them gets 409/40901,
// after which a device starts over without a cursor; so does every cursor but
// 0-0 that is not the id of an entry of this very stream. An agent keeps its
// cursor and what it knows for years: one that was registered anew, or comes
// from another server, would otherwise take the new state for an old one.
//
// The head of each polling device is held in memory, so that the poll with
// nothing new, by far the most frequent request, costs no query (heads.go).
package feed
