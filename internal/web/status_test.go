package web

import (
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	for _, code := range fault.Codes() {
		if statusOf(code) < 400 {
			t.Errorf("code %d has no status", code)
		}
	}
}
