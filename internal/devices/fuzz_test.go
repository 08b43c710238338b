package devices_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
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

// Whatever stands in header and claims, under our own key: what passes has the
// algorithm, key, audience, type, time, user and device of a token that we make.
func FuzzSignedToken(f *testing.F) {
	w := newWorld(f, dbtest.SQLite(f))
	good := strings.Split(w.register(w.user, nil).text("session.access_token"), ".")
	kid, key, err := w.svc.SigningKey(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	text := base64.RawURLEncoding
	header, _ := text.DecodeString(good[0])
	payload, _ := text.DecodeString(good[1])
	for _, change := range [][2]string{{"", ""}, {`"HS256"`, `"none"`}, {`"HS256"`, `"HS512"`}, {`"alg"`, `"ALG"`}, {"{", `{"jku":"https://evil.example",`}, {`"` + kid + `"`, `"../../etc"`}, {`"alg":`, `"crit":["exp"],"alg":`}} {
		f.Add([]byte(strings.Replace(string(header), change[0], change[1], 1)), payload)
	}
	for _, change := range [][2]string{{`"exp":`, `"nbf":`}, {`"exp":1700003600`, `"exp":1e300`}, {"certharbor-device", "other"}, {"device-access", "session"}, {`"device_id"`, `"DEVICE_ID"`}, {`"sub":"`, `"sub":"-`}, {"{", `{"nbf":1800000000,`}, {"{", `{"aud":["a","b"],`}} {
		f.Add(header, []byte(strings.Replace(string(payload), change[0], change[1], 1)))
	}
	f.Fuzz(func(t *testing.T, header, payload []byte) {
		signed := text.EncodeToString(header) + "." + text.EncodeToString(payload)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		caller, err := w.svc.AuthenticateDevice(t.Context(), signed+"."+text.EncodeToString(mac.Sum(nil)))
		if err != nil {
			if !fault.Is(err, fault.CodeUnauthorized) && !fault.Is(err, fault.CodeInvalid) && !fault.Is(err, fault.CodeForbidden) {
				t.Errorf("%s %s: %v", header, payload, err)
			}
			return
		}
		var h map[string]any
		var c struct {
			Sub      string          `json:"sub"`
			Aud      json.RawMessage `json:"aud"`
			Exp      float64         `json:"exp"`
			Nbf      float64         `json:"nbf"`
			DeviceID int64           `json:"device_id"`
			Use      string          `json:"token_use"`
		}
		if json.Unmarshal(header, &h) != nil || json.Unmarshal(payload, &c) != nil || h["alg"] != "HS256" || h["kid"] != kid {
			t.Fatalf("%s is accepted", header)
		}
		var audiences []string
		if json.Unmarshal(c.Aud, &audiences) != nil {
			audiences = []string{strings.Trim(string(c.Aud), `"`)}
		}
		now := float64(w.ms.Load() / 1000)
		if !slices.Contains(audiences, "certharbor-device") || c.Use != "device-access" || c.Exp <= now || c.Nbf > now {
			t.Errorf("%s is accepted", payload)
		}
		if c.Sub != strconv.FormatInt(w.user, 10) && c.Sub != "+"+strconv.FormatInt(w.user, 10) || c.DeviceID != caller.DeviceID || caller.UserID != w.user {
			t.Errorf("%s is %+v", payload, caller)
		}
	})
}
