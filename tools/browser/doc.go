// Package browser drives the installed Chromium through the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/), for tests of pages that
// need a real browser: passkeys above all, whose authenticator Chromium can play
// itself.
//
// The protocol runs over a pair of pipes, so nothing listens and nothing has to
// be found out. What a page may not do (an exception, something that its
// Content-Security-Policy forbids) is collected and ends the test.
package browser
