// Command tlsservice is a small HTTPS server as operators run many: it reads its certificate and
// key from two files, reads them again on SIGHUP, and keeps the old pair when the new one is broken
// or incomplete. The demo and the agent's tests let the agent reload it.
//
// It prints "listening ADDRESS" once it serves, "serving SERIAL" (hex) for each pair it takes into
// use, and "refused: …" for each it does not. Until there is a first good pair it refuses
// handshakes, so it can be started before the first certificate is installed.
package main
