// Package bench measures CertHarbor beside the bare limit of what it does, in
// the same run: what a program would cost that did this one thing and nothing
// else. Run it with `make bench`; docs/benchmarks.md keeps the last figures.
//
// The figure that counts is CPU time of the server process per operation,
// user and system, read from the kernel: wall-clock time on a shared machine
// says little. Both servers are processes of their own, driven by the same
// client over loopback.
package bench
