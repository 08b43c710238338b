package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// HEAD answers like GET, without the body (RFC 9110 section 9.3.2).
func TestHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	for _, o := range w.operations {
		if o.method != http.MethodGet || !w.admitted(o) {
			continue
		}
		path := w.fill(o, w.alice.ids)
		head := w.as(o, w.alice).try(http.MethodHead, path, nil)
		get := w.as(o, w.alice).try(http.MethodGet, path, nil)
		switch {
		case len(head.body) > 0 || head.header.Get("X-Request-Id") == "":
			t.Errorf("HEAD %s: %v with a body of %d bytes", path, head.header, len(head.body))
		case head.status != get.status || head.header.Get("Content-Type") != get.header.Get("Content-Type"):
			t.Errorf("HEAD %s: %d %v, GET: %d %v", path, head.status, head.header, get.status, get.header)
		}
	}
	w.wellAfter(t)
}

// A page of another origin changes nothing with the visitor's cookie, and reads
// nothing: there is no CORS.
func TestForeignOrigins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	before := w.seen(t, w.alice)
	for _, o := range w.operations {
		if !w.admitted(o) {
			continue
		}
		path := w.fill(o, w.alice.ids)
		for name, headers := range map[string]http.Header{
			"of another site":           {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}},
			"of another host":           {"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://evil.example.org"}},
			"of an old browser":         {"Origin": {"https://evil.example"}},
			"of a page without origin":  {"Origin": {"null"}},
			"of a form on another page": {"Origin": {"http://evil.example"}, "Content-Type": {"text/plain"}},
		} {
			headers = maps.Clone(headers)
			who := w.as(o, w.alice)
			maps.Copy(headers, who.header)
			a := (&caller{p: w.program, header: headers}).try(o.method, path, o.good(w.alice))
			for header := range a.header {
				if strings.HasPrefix(header, "Access-Control-") {
					t.Errorf("%s %s: %s", o.line(), name, header)
				}
			}
			if o.method == http.MethodGet {
				continue
			}
			if p := a.check(t, o.line(), o); p == nil || a.status != 403 || p.Code != 5022 {
				t.Errorf("%s %s: %d %.200s, want 403/5022", o.line(), name, a.status, a.body)
			}
		}
		preflight := (&caller{p: w.program, header: http.Header{
			"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {o.method}, "Access-Control-Request-Headers": {"authorization"},
		}}).try(http.MethodOptions, path, nil)
		if preflight.status < 400 || preflight.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight of %s: %d %v", o.line(), preflight.status, preflight.header)
		}
	}
	if after := w.seen(t, w.alice); after != before {
		t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
	}
}

// The same site itself, and callers that are no browsers, are let through.
func TestOwnOriginAndAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLiteConfig(t))
	for name, headers := range map[string]http.Header{
		"own page":            {"Sec-Fetch-Site": {"same-origin"}, "Origin": {w.URL}},
		"address bar":         {"Sec-Fetch-Site": {"none"}},
		"old browser at home": {"Origin": {w.URL}},
		"agent":               {},
	} {
		headers = maps.Clone(headers)
		maps.Copy(headers, w.alice.header)
		c := &caller{p: w.program, header: headers}
		c.do("POST", fmt.Sprintf("/apiv1/users/%d/acme-accounts", w.alice.UserID), accountExample(w.alice), 201)
		if t.Failed() {
			t.Logf("as %s", name)
		}
	}
}
