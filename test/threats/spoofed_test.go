package threats_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// spoofs are headers with which proxies tell servers what they know, and with
// which anybody may tell servers what is not so.
func spoofs() http.Header {
	h := http.Header{}
	for name, value := range map[string]string{
		"X-Forwarded-For": "203.0.113.9", "X-Real-Ip": "203.0.113.9", "Forwarded": `for=203.0.113.9;host=evil.example;proto=https`,
		"True-Client-Ip": "203.0.113.9", "Cf-Connecting-Ip": "203.0.113.9", "X-Client-Ip": "203.0.113.9", "X-Cluster-Client-Ip": "203.0.113.9",
		"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "X-Forwarded-Ssl": "on", "X-Forwarded-Port": "443", "X-Forwarded-Prefix": "/evil",
		"X-Ssl-Client-Verify": "SUCCESS", "X-Ssl-Client-Cn": "me@example.org", "X-Ssl-Client-S-Dn": "CN=me@example.org", "X-Ssl-Client-Cert": "x",
		"X-Forwarded-User": "me@example.org", "X-Remote-User": "me@example.org", "Remote-User": "me@example.org", "X-User-Id": "1", "X-Auth-Request-Email": "me@example.org",
		"X-Original-Url": "/apiv1/me/devices", "X-Rewrite-Url": "/apiv1/me/devices", "X-Original-Uri": "/apiv1/me/devices", "X-Original-Method": "DELETE",
		"X-Http-Method-Override": "DELETE", "X-Http-Method": "DELETE", "X-Method-Override": "DELETE",
	} {
		h.Set(name, value)
	}
	return h
}

// What a client says of itself, its address and its wishes in headers of
// proxies changes nothing (threats.md section 1: forged X-SSL-Client-*).
func TestSpoofedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, config sqldb.Config) {
		w := apptest.NewWorld(t, config)
		db, err := app.OpenDatabase(t.Context(), w.Config, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()

		before := w.Seen(t, w.Alice)
		for _, o := range w.Operations {
			if o.Method != "GET" || o.Rule.TakesNone() {
				continue
			}
			path := w.Fill(o, w.Alice.Ids)
			if a := w.Anonymous().With(spoofs()).Try("GET", path, nil); a.Status != 401 {
				t.Errorf("%s without a credential: %d", o.Line(), a.Status)
			}
			honest, spoofed := w.As(o, w.Alice).Try("GET", path, nil), w.As(o, w.Alice).With(spoofs()).Try("GET", path, nil)
			if honest.Status != spoofed.Status {
				t.Errorf("%s: %d, with spoofed headers %d", o.Line(), honest.Status, spoofed.Status)
			}
		}
		if after := w.Seen(t, w.Alice); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}

		email := "alice@example.org"
		login := map[string]any{"action": "login", "email": email, "password": apptest.Password}
		for _, cookie := range w.Anonymous().With(spoofs()).Do("POST", "/auth/general", login, 200).Header["Set-Cookie"] {
			if strings.Contains(cookie, "Secure") || strings.Contains(cookie, "evil") {
				t.Errorf("over plain HTTP: %s", cookie)
			}
		}
		login["password"] = "wrong"
		w.Anonymous().With(spoofs()).Do("POST", "/auth/general", login, 401)
		start := w.Anonymous().With(spoofs()).Do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200)
		w.Anonymous().With(spoofs()).Do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": "wrong"}, 400)
		if text := fmt.Sprint(string(start.Body), start.Header); strings.Contains(text, "evil") || strings.Contains(text, "https://") {
			t.Errorf("the link of a device login: %s", text)
		}
		buckets := readTexts(t, db, "SELECT bucket FROM rate_limits") + readTexts(t, db, "SELECT ip FROM sessions")
		if strings.Contains(buckets, "203.0.113") || !strings.Contains(buckets, "127.0.0.1") {
			t.Errorf("limits and sessions are counted by %s", buckets)
		}
	})
}

// Another Host reaches nothing else and is put into no answer.
func TestForeignHost(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, config sqldb.Config) {
		w := apptest.NewWorld(t, config)
		for _, host := range []string{"evil.example", "evil.example:443", "127.0.0.1@evil.example", "[::1]", "a,b", "..", ""} {
			for _, path := range []string{"/auth/status", "/device", "/docs", "/openapi.json", "/apiv1/me/devices", "//evil.example/", "/auth/status/"} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = host
				r.Header.Set("Cookie", w.Alice.Header.Get("Cookie"))
				response, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					continue // a Host that net/http does not even send
				}
				body := make([]byte, 1<<20)
				n, _ := response.Body.Read(body)
				_ = response.Body.Close()
				if text := fmt.Sprint(string(body[:n]), response.Header); strings.Contains(text, "evil") && path != "//evil.example/" {
					t.Errorf("%s of %s: %.300s", path, host, text)
				}
				if location := response.Header.Get("Location"); strings.Contains(location, "//") {
					t.Errorf("%s of %s leads to %s", path, host, location)
				}
			}
		}
	})
}

// readTexts gives the values of a column.
func readTexts(t *testing.T, db *sqldb.DB, query string) string {
	t.Helper()
	rows, err := db.Reader().QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
