package identity

import (
	"strings"
	"testing"
	"time"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	if l, err := ParseLimits(nil); err != nil || l != DefaultLimits() {
		t.Errorf("none: %+v, %v", l, err)
	}
	l, err := ParseLimits([]string{"resets-per-account=7/2h", " wrong-passwords-per-account=1/90s"})
	want := DefaultLimits()
	want.ResetsPerAccount, want.WrongPasswordsPerAccount = Limit{7, 2 * time.Hour}, Limit{1, 90 * time.Second}
	if err != nil || l != want {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []string{"", "resets=1/1h", "resets-per-account", "resets-per-account=5", "resets-per-account=0/1h", "resets-per-account=1/25h", "resets-per-account=x/1h"} {
		if _, err := ParseLimits([]string{bad}); err == nil || !strings.Contains(err.Error(), "resets-per-account") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
