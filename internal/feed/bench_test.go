package feed

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

// BenchmarkIdlePoll measures the poll with nothing new, through the whole chain
// of web with a request log that is switched off, beside a bare net/http
// handler. Both verify the same HS256 token; "socket" adds a kept connection on
// loopback, which is how the two compare in the field.
func BenchmarkIdlePoll(b *testing.B) {
	db := dbtest.SQLite(b)
	addDevices(b, db, 1)
	s := newService(b, db, newClock())
	appendOne(b, s, 1, signal(1))
	entries, err := s.Read(b.Context(), 1, Cursor{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	tag := `"` + entries[0].ID.String() + `"`
	m := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
		Device: func(_ context.Context, token string) (*access.Caller, error) {
			id, ok := verifyHS256(token)
			if !ok {
				return nil, fault.Unauthorized("bad token")
			}
			return &access.Caller{Kind: access.KindDevice, UserID: 1, DeviceID: id}, nil
		},
	}})
	s.Mount(m)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if _, ok := verifyHS256(token); !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Etag", tag)
		w.Header().Set("X-Poll-Interval", "10")
		w.WriteHeader(http.StatusNoContent)
	})
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"bare", bare}, {"feed", m}} {
		b.Run("handler/"+c.name, func(b *testing.B) { inProcess(b, c.handler, tag) })
		b.Run("socket/"+c.name, func(b *testing.B) { overSocket(b, c.handler, tag) })
	}
}

func idleRequest(b *testing.B, url, tag string) *http.Request {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, url+"/apiv1/devices/self/updates?limit=10", nil)
	r.Header.Set("Authorization", "Bearer "+signHS256(1))
	r.Header.Set("If-None-Match", tag)
	return r
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

func inProcess(b *testing.B, h http.Handler, tag string) {
	b.Helper()
	r := idleRequest(b, "", tag)
	b.ReportAllocs()
	for b.Loop() {
		w := &discard{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != http.StatusNoContent {
			b.Fatal(w.status)
		}
	}
}

func overSocket(b *testing.B, h http.Handler, tag string) {
	b.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	r := idleRequest(b, server.URL, tag)
	r.RequestURI = ""
	b.ReportAllocs()
	for b.Loop() {
		answer, err := server.Client().Do(r)
		if err != nil || answer.StatusCode != http.StatusNoContent {
			b.Fatal(answer, err)
		}
		answer.Body.Close()
	}
}

var benchKey = []byte("0123456789abcdef0123456789abcdef")

func signHS256(deviceID int64) string {
	claims, _ := json.Marshal(map[string]any{"device_id": deviceID, "sub": "1", "exp": time.Now().Add(time.Hour).Unix()})
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	mac := hmac.New(sha256.New, benchKey)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func verifyHS256(token string) (deviceID int64, ok bool) {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return 0, false
	}
	mac := hmac.New(sha256.New, benchKey)
	mac.Write([]byte(token[:dot]))
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil || !hmac.Equal(signature, mac.Sum(nil)) {
		return 0, false
	}
	_, payload, _ := strings.Cut(token[:dot], ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	var claims struct {
		DeviceID int64 `json:"device_id"`
		Exp      int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Exp < time.Now().Unix() {
		return 0, false
	}
	return claims.DeviceID, true
}
