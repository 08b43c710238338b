package acme_test

import (
	"testing"

	"certharbor.dev/certharbor/internal/acmetest"
)

// BenchmarkPebbleOrder is one certificate end to end, really validated, with
// waits of 20 ms and up between looks.
func BenchmarkPebbleOrder(b *testing.B) {
	_, f := pebbleFlow(b, acmetest.Options{}, "bench.example.test")
	if err := f.register(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := f.obtain(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
