package acme

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestProblemLine(t *testing.T) {
	body := `{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"Some of the identifiers\nare refused","status":400,
		"subproblems":[{"type":"urn:ietf:params:acme:error:malformed","detail":"Invalid underscore","identifier":{"type":"dns","value":"_a.example"}},
		{"type":"x","detail":"no identifier"},{"identifier":{"value":"only.example"}}]}`
	header := http.Header{"Content-Type": {"application/problem+json; charset=utf-8"}, "Retry-After": {"7"}}
	p := fromAnswer("new order", 400, header, []byte(body), time.Now())
	want := "urn:ietf:params:acme:error:rejectedIdentifier: Some of the identifiers are refused (_a.example: Invalid underscore; no identifier; only.example)"
	if p.Error() != want || p.Class != Permanent || p.RetryAfter != 7*time.Second || p.Status != 400 {
		t.Errorf("got  %s (%+v)\nwant %s", p, p, want)
	}
	for contentType, body := range map[string]string{
		"text/html": `{"type":"urn:x","detail":"upstream"}`, "application/problem+json": `{}`, "": `upstream`,
	} {
		p := fromAnswer("order", 502, http.Header{"Content-Type": {contentType}}, []byte(body), time.Now())
		if p.Error() != "order: the CA answered HTTP Bad Gateway" || p.Class != Retry || !errors.Is(p, ErrBadAnswer) {
			t.Errorf("%s: %s, %s", contentType, p, p.Class)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		op     string
		status int
		kind   string
		want   Class
	}{
		{opNewOrder, 429, "rateLimited", Retry}, {opNewOrder, 429, "", Retry}, {opNewOrder, 403, "rateLimited", Retry},
		{opOrder, 500, "serverInternal", Retry}, {opOrder, 503, "", Retry}, {opOrder, 408, "", Retry}, {opOrder, 400, "badNonce", Retry},
		{opNewOrder, 400, "rejectedIdentifier", Permanent}, {opNewOrder, 403, "unauthorized", Permanent},
		{opNewOrder, 403, "caa", Permanent}, {opNewOrder, 400, "dns", Permanent}, {opNewOrder, 400, "malformed", Permanent},
		{opFinalize, 400, "badCSR", Permanent}, {opOrder, 301, "", Permanent}, {opOrder, 401, "", Permanent},
		{opOrder, 404, "malformed", OrderGone}, {opFinalize, 404, "", OrderGone}, {opCertificate, 410, "", OrderGone},
		{opAuthorization, 404, "", OrderGone}, {opChallenge, 404, "", OrderGone},
		{opNewOrder, 404, "", Permanent}, {opRegister, 404, "", Permanent}, {opDirectory, 404, "", Permanent},
		{opOrder, 400, "accountDoesNotExist", AccountGone}, {opOrder, 404, "accountDoesNotExist", AccountGone},
	} {
		kind := c.kind
		if kind != "" {
			kind = urn + kind
		}
		if got := classify(c.op, c.status, kind); got != c.want {
			t.Errorf("%s %d %s: %s, want %s", c.op, c.status, c.kind, got, c.want)
		}
	}
}

func TestAsProblem(t *testing.T) {
	if AsProblem(nil) != nil {
		t.Error("a problem for no error")
	}
	p := AsProblem(errors.New("secret"))
	if p.Class != Retry || strings.Contains(p.Error(), "secret") || p.Unwrap() == nil {
		t.Errorf("foreign error: %s, %s", p, p.Class)
	}
}

// Whatever a CA says fits one clean line.
func FuzzProblemDocument(f *testing.F) {
	f.Add([]byte(`{"type":"urn:ietf:params:acme:error:dns","detail":"a\u0000b\u202e\r\nc","subproblems":[{"identifier":{"value":"x"}}]}`))
	f.Add([]byte(`{"detail":"LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"}`))
	f.Add([]byte(`{"type":7,"detail":null,"subproblems":{}}`))
	long, err := json.Marshal(map[string]string{"type": strings.Repeat("t", 5000), "detail": strings.Repeat("ä", 5000)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, body []byte) {
		line := fromAnswer("order", 400, http.Header{"Content-Type": {"application/problem+json"}}, body, time.Now()).Error()
		if line == "" || len(line) > maxLine || !utf8.ValidString(line) || keyAuthorization.MatchString(line) {
			t.Errorf("line of %d bytes: %q", len(line), line)
		}
		for _, r := range line {
			if r != utf8.RuneError && !unicode.IsPrint(r) {
				t.Errorf("%U in %q", r, line)
			}
		}
	})
}

// No bytes make the chain parser fail otherwise than with an error.
func FuzzParseChain(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nh: v\n\nMAMCAQE=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n"))
	f.Add([]byte(" \n\t"))
	f.Fuzz(func(t *testing.T, data []byte) {
		chain, err := parseChain(data)
		if (err == nil) != (chain.Leaf != nil) || err != nil && !errors.Is(err, ErrBadAnswer) {
			t.Errorf("chain %v, error %v", chain.Leaf != nil, err)
		}
		if len(chain.Issuers) >= maxChain {
			t.Errorf("%d issuers", len(chain.Issuers))
		}
	})
}

func FuzzCheckURL(f *testing.F) {
	for _, raw := range []string{"https://ca.example/dir", "https://[::1]:1/", "HTTPS://A.example:443", "https:a", "https://a\"b/", "//x", ""} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := checkURL(raw)
		if err != nil {
			if !errors.Is(err, ErrBadURL) {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(raw, "\"\\ \r\n") {
			t.Errorf("%q was accepted", raw)
		}
	})
}
