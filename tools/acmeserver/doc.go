// Command acmeserver runs a real Pebble (Let's Encrypt's small ACME server) together with its DNS
// helper challtestsrv, for tests, benchmarks and the demo.
//
// It is Pebble's own cmd/pebble with three differences that parallel tests need: it listens on
// loopback ports the kernel chooses and says which, it makes its own TLS certificate, and it ends
// when its standard input closes, so it never outlives the process that started it.
//
// Protocol: one JSON object per line. The first line on standard input holds the options (type
// options), answered on standard output by a line of type ready. Every further input line is a
// command for the DNS helper (type command), answered by a line {"error": ""}. Pebble's log goes to
// standard error. Pebble's own environment variables (PEBBLE_VA_NOSLEEP, PEBBLE_VA_ALWAYS_VALID,
// PEBBLE_WFE_NONCEREJECT, PEBBLE_AUTHZREUSE, PEBBLE_CHAIN_LENGTH …) work as they do for Pebble.
package main
