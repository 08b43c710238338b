// Package wiretest is a server for the agent's tests that behaves as wire.md
// says (sections 1 to 4, 6 and 7), with faults on demand. Only tests import it;
// whole-program tests use the real server.
package wiretest
