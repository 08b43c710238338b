// Package ratelimit counts what may happen only so often, shared by all nodes.
//
// A Hit says what is counted (Rule), for whom (Key) and how many are allowed
// within a window, which begins with the first hit and ends a fixed time later.
// Past that every further hit is refused until then (429/5013 with Retry-After).
// The counters are rows, so a restart forgets nothing.
//
// There are two ways to count, and none that looks first and counts later:
//
//   - Spend is for tries at a secret. It commits the hits in a transaction of its
//     own before the caller looks at what was sent, so that a thousand tries in
//     one millisecond are as many looks as the limit has left. The right secret
//     gives its hits back; a refusal gives back nothing.
//   - CountIn is for acts. It counts in the transaction that acts, which a
//     refusal rolls back: as many acts are done as are counted.
//
// Peek saves work for what would be refused anyway. It decides nothing.
package ratelimit
