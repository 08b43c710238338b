package app_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
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

// with adds headers to those of the caller.
func (c *caller) with(more http.Header) *caller {
	all := c.header.Clone()
	maps.Copy(all, more)
	return &caller{p: c.p, header: all, UserID: c.UserID}
}

// What a client says of itself, its address and its wishes in headers of
// proxies changes nothing (threats.md section 1: forged X-SSL-Client-*).
func TestSpoofedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, config sqldb.Config) {
		w := newWorld(t, config)
		db, err := app.OpenDatabase(t.Context(), w.config, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()

		before := w.seen(t, w.alice)
		for _, o := range w.operations {
			if o.method != "GET" || o.rule.TakesNone() {
				continue
			}
			path := w.fill(o, w.alice.ids)
			if a := w.anonymous().with(spoofs()).try("GET", path, nil); a.status != 401 {
				t.Errorf("%s without a credential: %d", o.line(), a.status)
			}
			honest, spoofed := w.as(o, w.alice).try("GET", path, nil), w.as(o, w.alice).with(spoofs()).try("GET", path, nil)
			if honest.status != spoofed.status {
				t.Errorf("%s: %d, with spoofed headers %d", o.line(), honest.status, spoofed.status)
			}
		}
		if after := w.seen(t, w.alice); after != before {
			t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
		}

		email := "alice@example.org"
		login := map[string]any{"action": "login", "email": email, "password": password}
		for _, cookie := range w.anonymous().with(spoofs()).do("POST", "/auth/general", login, 200).header["Set-Cookie"] {
			if strings.Contains(cookie, "Secure") || strings.Contains(cookie, "evil") {
				t.Errorf("over plain HTTP: %s", cookie)
			}
		}
		login["password"] = "wrong"
		w.anonymous().with(spoofs()).do("POST", "/auth/general", login, 401)
		start := w.anonymous().with(spoofs()).do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200)
		w.anonymous().with(spoofs()).do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": "wrong"}, 400)
		if text := fmt.Sprint(string(start.body), start.header); strings.Contains(text, "evil") || strings.Contains(text, "https://") {
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
	onEach(t, func(t *testing.T, config sqldb.Config) {
		w := newWorld(t, config)
		for _, host := range []string{"evil.example", "evil.example:443", "127.0.0.1@evil.example", "[::1]", "a,b", "..", ""} {
			for _, path := range []string{"/auth/status", "/device", "/docs", "/openapi.json", "/apiv1/me/devices", "//evil.example/", "/auth/status/"} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = host
				r.Header.Set("Cookie", w.alice.header.Get("Cookie"))
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
