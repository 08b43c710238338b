package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be the program itself: a copy of it named
// certharbor comes first on PATH. What the tests start, stop and kill is thus
// the real program with the race detector in it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"certharbor": main})
}
