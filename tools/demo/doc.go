// Command demo goes through the whole life of a certificate with the built programs and a real ACME
// server, as an operator would: it signs in, registers an ACME account, orders a certificate, enrols
// a device, lets the device's agent install the certificate and reload a TLS service, receives the
// signed webhook, and waits for a renewal that nobody asked for. It talks to CertHarbor only through
// the public HTTP API and the command line, checks every step by itself and prints a table of the
// steps with the time each took.
//
// The ACME server issues certificates that live for seconds, so the renewal comes while one waits.
// With CI=true nothing is left running; otherwise everything stays up and the last lines say where
// to look and how to stop it.
package main
