package matrix_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// HEAD answers like GET, without the body (RFC 9110 section 9.3.2).
func TestHead(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	for _, o := range w.Operations {
		if o.Method != http.MethodGet || !w.Admitted(o) {
			continue
		}
		path := w.Fill(o, w.Alice.Ids)
		head := w.As(o, w.Alice).Try(http.MethodHead, path, nil)
		get := w.As(o, w.Alice).Try(http.MethodGet, path, nil)
		switch {
		case len(head.Body) > 0 || head.Header.Get("X-Request-Id") == "":
			t.Errorf("HEAD %s: %v with a body of %d bytes", path, head.Header, len(head.Body))
		case head.Status != get.Status || head.Header.Get("Content-Type") != get.Header.Get("Content-Type"):
			t.Errorf("HEAD %s: %d %v, GET: %d %v", path, head.Status, head.Header, get.Status, get.Header)
		}
	}
	w.WellAfter(t)
}

// A page of another origin changes nothing with the visitor's cookie, and reads
// nothing: there is no CORS.
func TestForeignOrigins(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	before := w.Seen(t, w.Alice)
	for _, o := range w.Operations {
		if !w.Admitted(o) {
			continue
		}
		path := w.Fill(o, w.Alice.Ids)
		for name, headers := range map[string]http.Header{
			"of another site":           {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}},
			"of another host":           {"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://evil.example.org"}},
			"of an old browser":         {"Origin": {"https://evil.example"}},
			"of a page without origin":  {"Origin": {"null"}},
			"of a form on another page": {"Origin": {"http://evil.example"}, "Content-Type": {"text/plain"}},
		} {
			headers = maps.Clone(headers)
			who := w.As(o, w.Alice)
			maps.Copy(headers, who.Header)
			a := (&apptest.Caller{P: w.Program, Header: headers}).Try(o.Method, path, o.Good(w.Alice))
			for header := range a.Header {
				if strings.HasPrefix(header, "Access-Control-") {
					t.Errorf("%s %s: %s", o.Line(), name, header)
				}
			}
			if o.Method == http.MethodGet {
				continue
			}
			if p := a.Check(t, o.Line(), o); p == nil || a.Status != 403 || p.Code != 5022 {
				t.Errorf("%s %s: %d %.200s, want 403/5022", o.Line(), name, a.Status, a.Body)
			}
		}
		preflight := (&apptest.Caller{P: w.Program, Header: http.Header{
			"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {o.Method}, "Access-Control-Request-Headers": {"authorization"},
		}}).Try(http.MethodOptions, path, nil)
		if preflight.Status < 400 || preflight.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight of %s: %d %v", o.Line(), preflight.Status, preflight.Header)
		}
	}
	if after := w.Seen(t, w.Alice); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
}

// The same site itself, and callers that are no browsers, are let through.
func TestOwnOriginAndAgents(t *testing.T) {
	t.Parallel()
	w := apptest.NewWorld(t, dbtest.SQLiteConfig(t))
	for name, headers := range map[string]http.Header{
		"own page":            {"Sec-Fetch-Site": {"same-origin"}, "Origin": {w.URL}},
		"address bar":         {"Sec-Fetch-Site": {"none"}},
		"old browser at home": {"Origin": {w.URL}},
		"agent":               {},
	} {
		headers = maps.Clone(headers)
		maps.Copy(headers, w.Alice.Header)
		c := &apptest.Caller{P: w.Program, Header: headers}
		c.Do("POST", fmt.Sprintf("/apiv1/users/%d/acme-accounts", w.Alice.UserID), apptest.AccountExample(w.Alice), 201)
		if t.Failed() {
			t.Logf("as %s", name)
		}
	}
}
