package threats_test

import (
	"encoding/json"
	"os"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
)

// TestServedProcess is no test: it is the server of a process of its own, where
// the debug settings of the runtime can be what they are read as at the start.
func TestServedProcess(t *testing.T) {
	text := os.Getenv(apptest.ServedVariable)
	if text == "" {
		return
	}
	var c app.Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if err := app.Serve(t.Context(), c, "test", os.Environ(), os.Stdout, os.Stderr); err != nil {
		t.Fatal(err)
	}
}
