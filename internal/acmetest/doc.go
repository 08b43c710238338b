// Package acmetest runs a real ACME server for tests and benchmarks: Pebble with its DNS helper, a
// process of its own per test (tools/acmeserver), on loopback ports nobody else has.
//
//	ca := acmetest.Start(t, acmetest.Options{HTTPPort: ourPort, NonceRejectPercent: 20})
//	// ca.DirectoryURL, ca.CABundlePEM → an ACME account of provider "custom"
//	ca.FailValidation(t, "broken.example.test")
//
// The process ends with the test, and also when the test process is killed, since it watches the
// pipe it was started with. The binary is built once per state of the tools module and shared by
// all test processes of the machine. Pebble hangs under very fast polling with many orders at once,
// so take a fresh Server per test and give every ACME call a deadline.
package acmetest
