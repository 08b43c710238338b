package webhooks

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

func TestParseScope(t *testing.T) {
	all := Scope{Type: ScopeAll}
	for _, c := range []struct {
		text   string
		want   Scope
		warned bool
	}{
		{`null`, all, false},
		{`{"type":"all"}`, all, false},
		{`{"type":"all","cert_id":3}`, all, false},
		{`{"type":"cert_id","cert_id":7}`, Scope{Type: ScopeCert, CertID: 7}, false},
		{`{"type":"domain","domain":"Www.Example.com."}`, Scope{Type: ScopeDomain, Domain: "www.example.com"}, false},
		{`{"type":"domain","domain":"*.example.com"}`, Scope{Type: ScopeDomain, Domain: "*.example.com"}, false},
		{`{"type":"domain","domain":"bücher.example"}`, Scope{Type: ScopeDomain, Domain: "xn--bcher-kva.example"}, false},
		{`{"type":"domain","domain":"2001:DB8::1"}`, Scope{Type: ScopeDomain, Domain: "2001:db8::1"}, false},
		{`"{\"type\":\"cert_id\",\"cert_id\":7}"`, Scope{Type: ScopeCert, CertID: 7}, false},
		{`{}`, all, true},
		{`[]`, all, true},
		{`5`, all, true},
		{`true`, all, true},
		{`"all"`, all, true},
		{`"{{{ not JSON"`, all, true},
		{`{"type":"everything"}`, all, true},
		{`{"type":1}`, all, true},
		{`{"type":"cert_id"}`, all, true},
		{`{"type":"cert_id","cert_id":"7"}`, all, true},
		{`{"type":"cert_id","cert_id":0}`, all, true},
		{`{"type":"cert_id","cert_id":-1}`, all, true},
		{`{"type":"cert_id","cert_id":1.5}`, all, true},
		{`{"type":"cert_id","cert_id":1e300}`, all, true},
		{`{"type":"domain"}`, all, true},
		{`{"type":"domain","domain":""}`, all, true},
		{`{"type":"domain","domain":" . "}`, all, true},
		{`{"type":"domain","domain":"a b"}`, all, true},
		{`{"type":"domain","domain":["a.example"]}`, all, true},
	} {
		var value any
		if err := json.Unmarshal([]byte(c.text), &value); err != nil {
			t.Fatal(err)
		}
		got, warning := ParseScope(value)
		if got != c.want || (warning != "") != c.warned {
			t.Errorf("%s: %+v, warning %q; want %+v, warned %v", c.text, got, warning, c.want, c.warned)
		}
	}
}

func FuzzParseScope(f *testing.F) {
	f.Add(`{"type":"cert_id","cert_id":7}`)
	f.Add(`{"type":"domain","domain":"*.bücher.example"}`)
	f.Add(`"{\"type\":\"all\"}"`)
	f.Add(`[{"type":{}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		scope, _ := ParseScope(value)
		shown, err := json.Marshal(scope)
		if err != nil {
			t.Fatal(err)
		}
		var again any
		if err := json.Unmarshal(shown, &again); err != nil {
			t.Fatal(err)
		}
		// What is shown is understood as the same scope when it is sent back.
		if back, warning := ParseScope(again); back != scope || warning != "" {
			t.Errorf("%s is shown as %s, which is understood as %+v (%s)", text, shown, back, warning)
		}
	})
}

func TestCovers(t *testing.T) {
	e := Event{CertID: 7, DomainName: "a.example", Names: []string{"a.example", "*.b.example"}}
	for _, c := range []struct {
		scope Scope
		want  bool
	}{
		{Scope{Type: ScopeAll}, true},
		{Scope{Type: ScopeCert, CertID: 7}, true},
		{Scope{Type: ScopeCert, CertID: 8}, false},
		{Scope{Type: ScopeDomain, Domain: "a.example"}, true},
		{Scope{Type: ScopeDomain, Domain: "*.b.example"}, true},
		{Scope{Type: ScopeDomain, Domain: "x.b.example"}, false},
		{Scope{Type: ScopeDomain, Domain: "example"}, false},
	} {
		if got := c.scope.Covers(e); got != c.want {
			t.Errorf("%+v: %v, want %v", c.scope, got, c.want)
		}
	}
}

// The digest was made with: printf '%s' '1700000000000.{"event":"certificate.issued"}' | openssl dgst -sha256 -hmac whsec_0123456789abcdef.
func TestSign(t *testing.T) {
	got := Sign([]byte("whsec_0123456789abcdef"), "1700000000000", []byte(`{"event":"certificate.issued"}`))
	if want := "sha256=f89458f485e4c85668d3082564ae96e0ed70acc5227da30ada4e8128c21be732"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestEncodeBody(t *testing.T) {
	got, err := encodeBody(EventIssued, Event{CertID: 12, IssueHistoryID: 34, UserID: 5, DomainName: "a.example"}, 1700000000000)
	if want := `{"event":"certificate.issued","cert_id":12,"issue_history_id":34,"user_id":5,"ts_ms":1700000000000,"domain_name":"a.example"}`; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	got, err = encodeBody(EventTest, Event{UserID: 5}, 1)
	if want := `{"event":"webhook.test","cert_id":0,"issue_history_id":0,"user_id":5,"ts_ms":1}`; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		attempt int64
		asked   time.Duration
		random  float64
		want    time.Duration
	}{
		{1, 0, 0.5, 5 * time.Second},
		{1, 0, 0, 4500 * time.Millisecond},
		{1, 0, 1, 5500 * time.Millisecond},
		{2, 0, 0.5, 10 * time.Second},
		{13, 0, 0.5, 5 * 4096 * time.Second},
		{14, 0, 0.5, 8 * time.Hour},
		{21, 0, 0.5, 8 * time.Hour},
		{1 << 40, 0, 0.5, 8 * time.Hour},
		{1, time.Minute, 0.5, time.Minute},
		{1, time.Second, 0.5, 5 * time.Second},
		{1, 100 * time.Hour, 0.5, 8 * time.Hour},
	} {
		if got := delay(c.attempt, c.asked, c.random); got != c.want {
			t.Errorf("delay(%d, %v, %v) = %v, want %v", c.attempt, c.asked, c.random, got, c.want)
		}
	}
	var sum time.Duration
	for n := int64(1); n <= maxRetries; n++ {
		sum += delay(n, 0, 0.5)
	}
	if sum < 75*time.Hour || sum > 76*time.Hour {
		t.Errorf("attempts go on for %v, want about 75 hours", sum)
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		code, attempts int64
		event, want    string
	}{
		{200, 0, EventIssued, StatusSuccess},
		{204, 21, EventIssued, StatusSuccess},
		{299, 0, EventTest, StatusSuccess},
		{301, 0, EventIssued, StatusPermanent},
		{302, 0, EventIssued, StatusPermanent},
		{400, 0, EventIssued, StatusPermanent},
		{401, 0, EventIssued, StatusPermanent},
		{403, 0, EventIssued, StatusPermanent},
		{404, 0, EventIssued, StatusPermanent},
		{408, 0, EventIssued, StatusPending},
		{410, 0, EventIssued, StatusPermanent},
		{425, 0, EventIssued, StatusPermanent},
		{429, 0, EventIssued, StatusPending},
		{500, 0, EventIssued, StatusPending},
		{503, 20, EventIssued, StatusPending},
		{503, 21, EventIssued, StatusExhausted},
		{0, 0, EventIssued, StatusPending},
		{0, 21, EventIssued, StatusExhausted},
		{503, 0, EventTest, StatusExhausted},
		{101, 0, EventIssued, StatusPermanent},
		{http.StatusNetworkAuthenticationRequired, 0, EventIssued, StatusPending},
	} {
		r := result{delivery: delivery{Event: c.event, Attempts: c.attempts}, code: c.code}
		if got := r.status(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestHealth(t *testing.T) {
	const hour = int64(3_600_000)
	var h health
	var giveUp bool
	for at := hour; at < 121*hour; at += 8 * hour {
		if h, giveUp = h.failed(at); giveUp {
			t.Fatalf("given up at hour %d, after %d", at/hour, (at-hour)/hour)
		}
	}
	if h, giveUp = h.failed(121 * hour); !giveUp {
		t.Errorf("not given up after 120 hours: %+v", h)
	}
	if h, giveUp = h.failed(1000 * hour); giveUp || h.failingSince != 1000*hour {
		t.Errorf("two failures with weeks between them: given up %v, %+v", giveUp, h)
	}
}
