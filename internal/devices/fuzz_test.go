package devices_test

import (
	"regexp"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func FuzzParseRefreshToken(f *testing.F) {
	token, _ := devices.NewRefreshToken()
	for _, seed := range []string{token, "", "rt_", "rt_.", "rt_" + strings.Repeat("0", 32) + ".", strings.ToUpper(token), token + "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lookup, ok := devices.ParseRefreshToken(text)
		if ok && (len(lookup) != 32 || !strings.HasPrefix(text, "rt_"+lookup+".") || len(text) > 256) {
			t.Errorf("%q gives %q", text, lookup)
		}
	})
}

func FuzzParseUserCode(f *testing.F) {
	for _, seed := range []string{devices.NewUserCode(), "abcd-1234", "", "ABCD1234", "ABCD-12345", "ſBCD-EFGH", "ABCD-EFGH\n"} {
		f.Add(seed)
	}
	form := regexp.MustCompile(`\A[A-Z0-9]{4}-[A-Z0-9]{4}\z`)
	f.Fuzz(func(t *testing.T, text string) {
		code, err := devices.ParseUserCode(text)
		if (err == nil) != form.MatchString(code) || (err == nil && len(text) != 9) || (err != nil && !fault.Is(err, fault.CodeInvalid)) {
			t.Errorf("%q gives %q, %v", text, code, err)
		}
	})
}

func FuzzParsePublicID(f *testing.F) {
	for _, seed := range []string{publicID, strings.ToLower(publicID), "", publicID + "\n", strings.ReplaceAll(publicID, "-", ""), "K" + publicID[1:]} {
		f.Add(seed)
	}
	form := regexp.MustCompile(`\A[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\z`)
	f.Fuzz(func(t *testing.T, text string) {
		id, err := devices.ParsePublicID(text)
		if (err == nil) != form.MatchString(id) || (err == nil && len(text) != 36) || (err != nil && !fault.Is(err, fault.CodeInvalid)) {
			t.Errorf("%q gives %q, %v", text, id, err)
		}
	})
}

// No bytes but a token we signed pass, and none is our fault.
func FuzzAuthenticateDevice(f *testing.F) {
	w := newWorld(f, dbtest.SQLite(f))
	good := w.register(w.user, nil).text("session.access_token")
	f.Add(good + "A")
	f.Add(good + "\n")
	f.Add(good[:len(good)-1])
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		caller, err := w.svc.AuthenticateDevice(t.Context(), token)
		if token == good {
			return
		}
		if caller != nil || !fault.Is(err, fault.CodeUnauthorized) {
			t.Errorf("%q: %+v, %v", token, caller, err)
		}
	})
}
