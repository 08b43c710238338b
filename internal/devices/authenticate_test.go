package devices_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// payload reads a JWT as agents do, unverified.
func payload(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var claims map[string]any
	if err := d.Decode(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestAccessTokenClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	a := w.register(w.user, nil).want(t, 201, 0)
	token := a.text("session.access_token")
	claims := payload(t, token)
	if claims["device_id"] != json.Number(strconv.FormatInt(a.id("device.id"), 10)) || claims["sub"] != strconv.FormatInt(w.user, 10) || claims["exp"] != json.Number("1700003600") {
		t.Errorf("claims: %v", claims)
	}
	caller, err := w.svc.AuthenticateDevice(t.Context(), token)
	if err != nil || caller.UserID != w.user || caller.DeviceID != a.id("device.id") {
		t.Errorf("%+v, %v", caller, err)
	}
	w.advance(time.Hour - time.Second)
	w.notify(token).want(t, 204, 0)
	w.advance(time.Second)
	w.notify(token).want(t, 401, 5018)
}

// threats.md scenario 15.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	a := w.register(w.user, nil).want(t, 201, 0)
	good := a.text("session.access_token")
	kid, key, err := w.svc.SigningKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claims := func(change m) jwt.MapClaims {
		c := jwt.MapClaims{
			"sub": strconv.FormatInt(w.user, 10), "aud": []string{"certharbor-device"}, "iat": 1_700_000_000, "exp": 1_700_003_600,
			"device_id": a.id("device.id"), "session_no": 1, "token_use": "device-access",
		}
		for k, v := range change {
			if v == nil {
				delete(c, k)
			} else {
				c[k] = v
			}
		}
		return c
	}
	forge := func(method jwt.SigningMethod, key any, header, change m) string {
		token := jwt.NewWithClaims(method, claims(change))
		token.Header["kid"] = kid
		maps.Copy(token.Header, header)
		signed, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	hs := jwt.SigningMethodHS256
	parts := strings.Split(good, ".")
	w.notify(forge(hs, key, nil, nil)).want(t, 204, 0) // the forge works
	w.notify(forge(hs, key, m{"jku": "https://evil.example/keys", "x5u": "https://evil.example", "jwk": m{"kty": "oct", "k": "AAAA"}}, nil)).want(t, 204, 0)
	for name, token := range map[string]string{
		"none":              forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, nil),
		"HS512":             forge(jwt.SigningMethodHS512, key, nil, nil),
		"public key":        forge(hs, []byte(devPK), nil, nil),
		"empty key":         forge(hs, []byte{}, nil, nil),
		"kid unknown":       forge(hs, key, m{"kid": "2"}, nil),
		"kid path":          forge(hs, key, m{"kid": "../../dev/null"}, nil),
		"kid number":        forge(hs, key, m{"kid": 1}, nil),
		"kid empty, no key": forge(hs, []byte{}, m{"kid": ""}, nil),
		"jwk of its own":    forge(hs, []byte{0, 0, 0}, m{"jwk": m{"kty": "oct", "k": "AAAA"}}, nil),
		"other audience":    forge(hs, key, nil, m{"aud": "certharbor-session"}),
		"no audience":       forge(hs, key, nil, m{"aud": nil}),
		"other type":        forge(hs, key, nil, m{"token_use": "session"}),
		"no type":           forge(hs, key, nil, m{"token_use": nil}),
		"no exp":            forge(hs, key, nil, m{"exp": nil}),
		"expired":           forge(hs, key, nil, m{"exp": 1_700_000_000}),
		"not yet":           forge(hs, key, nil, m{"nbf": 1_700_000_060}),
		"float device":      forge(hs, key, nil, m{"device_id": 1.5}),
		"text device":       forge(hs, key, nil, m{"device_id": "1"}),
		"no sub":            forge(hs, key, nil, m{"sub": nil}),
		"other family":      forge(hs, key, nil, m{"session_no": 2}),
		"no signature":      parts[0] + "." + parts[1] + ".",
		"changed payload":   parts[0] + "." + parts[1][:len(parts[1])-4] + "AAAA." + parts[2],
		"trailing bits":     good[:len(good)-1] + "-",
		"two parts":         parts[0] + "." + parts[1],
		"empty":             "",
		"long":              strings.Repeat("a", 1<<20),
	} {
		if a := w.notify(token); a.status != 401 || a.code != 5018 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.notify(forge(hs, key, nil, m{"device_id": nil})).want(t, 400, 5000)
	w.notify(forge(hs, key, nil, m{"device_id": 999})).want(t, 403, 5022)
	w.notify(forge(hs, key, nil, m{"sub": strconv.FormatInt(w.other, 10)})).want(t, 403, 5022)
}

func TestDeadDevicesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		a := w.register(w.user, nil).want(t, 201, 0)
		token := a.text("session.access_token")
		w.notify(token).want(t, 204, 0)

		// Another process disables the user, as the certharbor command does.
		w.exec(`UPDATE users SET status = 'DISABLED' WHERE id = $1`, w.user)
		w.advance(time.Second)
		w.notify(token).want(t, 403, 5022)
		w.exec(`UPDATE users SET status = 'ACTIVE' WHERE id = $1`, w.user)
		w.advance(time.Second)
		w.notify(token).want(t, 204, 0)

		w.call(session(w.user), deleteLine(w.user, a.id("device.id")), nil).want(t, 204, 0)
		w.notify(token).want(t, 403, 5022)
	})
}

// Nodes share the signing keys, and know of each other's changes in a second.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, dbtest.PostgresConfig(t))
	w := newWorld(t, db)
	svc, mux := w.node()
	var wg sync.WaitGroup
	kids, secrets := make([]string, 2), make([]string, 2)
	for i, node := range []interface {
		SigningKey(context.Context) (string, []byte, error)
	}{w.svc, svc} {
		wg.Go(func() { // both make the first key at once
			kid, key, err := node.SigningKey(t.Context())
			if err != nil {
				t.Error(err)
			}
			kids[i], secrets[i] = kid, string(key)
		})
	}
	wg.Wait()
	if secrets[0] != secrets[1] || len(secrets[0]) != 32 || kids[0] != kids[1] {
		t.Fatalf("kids %v, keys of %d and %d bytes", kids, len(secrets[0]), len(secrets[1]))
	}
	a := w.register(w.user, nil).want(t, 201, 0)
	token := a.text("session.access_token")
	notify := "POST /apiv1/devices/self/notify"
	w.callOn(mux, token, notify, m{"events": []any{}}).want(t, 204, 0)
	w.call(session(w.user), deleteLine(w.user, a.id("device.id")), nil).want(t, 204, 0)
	w.advance(time.Second)
	w.callOn(mux, token, notify, m{"events": []any{}}).want(t, 403, 5022)
}

func TestLastSeenIsWrittenRarely(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		w.deps.AccessTTL = 24 * time.Hour
		w.svc, w.mux = w.node()
		token := w.register(w.user, nil).want(t, 201, 0).text("session.access_token")
		seen := func() int { return w.count(`SELECT last_seen_at FROM devices`) }
		start := seen()
		w.advance(10*time.Minute - time.Second)
		w.notify(token).want(t, 204, 0)
		if seen() != start {
			t.Error("written before ten minutes were over")
		}
		w.advance(time.Second)
		w.notify(token).want(t, 204, 0)
		if got := seen() - start; got != 600_000 {
			t.Errorf("last seen %d ms later, want 600000", got)
		}
	})
}

// A commit that is not confirmed may have happened: memory must not outlive it.
func TestUncertainDelete(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]sqldb.Config{"sqlite": dbtest.SQLiteConfig(t), "postgres": dbtest.PostgresConfig(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uncertain := false
			config.CommitFault = func() bool { return uncertain }
			w := newWorld(t, dbtest.Open(t, config))
			a := w.register(w.user, nil).want(t, 201, 0)
			w.notify(a.text("session.access_token")).want(t, 204, 0)
			uncertain = true
			if err := w.svc.Delete(t.Context(), w.user, a.id("device.id")); !errors.Is(err, sqldb.ErrUncertain) {
				t.Fatal(err)
			}
			uncertain = false
			w.notify(a.text("session.access_token")).want(t, 403, 5022)
		})
	}
}

// An error of our own is never told as the token's: agents would give up.
func TestTroubleIsNotTheTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	a := w.register(w.user, nil).want(t, 201, 0)
	svc, _ := w.node()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := svc.AuthenticateDevice(ctx, a.text("session.access_token")); err == nil || fault.As(err) != nil {
		t.Errorf("authenticate: %v", err)
	}
	if _, err := svc.Refresh(ctx, a.text("session.refresh_token")); err == nil || fault.As(err) != nil {
		t.Errorf("refresh: %v", err)
	}
}
