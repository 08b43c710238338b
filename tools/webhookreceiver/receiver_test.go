package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

const secret = "a secret of the demo"

func sign(timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "." + body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_750_000_000_000)
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).UnixMilli(), 10) }
	body := `{"event":"certificate.issued"}`
	// Computed once with openssl dgst -sha256 -hmac, so that verify is not checked by itself.
	if err := verify([]byte("k"), "1750000000000",
		"sha256=20c65e72b26d81e490754345f0c738f8aa8a28f34e929ccfaa9944101f16e4bf", []byte("{}"), now); err != nil {
		t.Errorf("known signature: %v", err)
	}
	cases := []struct {
		name, timestamp, signature, body, problem string
	}{
		{"good", at(0), sign(at(0), body), body, ""},
		{"edge of freshness", at(-5 * time.Minute), sign(at(-5*time.Minute), body), body, ""},
		{"stale", at(-5*time.Minute - time.Millisecond), sign(at(-5*time.Minute-time.Millisecond), body), body, "off"},
		{"from the future", at(6 * time.Minute), sign(at(6*time.Minute), body), body, "off"},
		{"other body", at(0), sign(at(0), body), body + " ", "signature"},
		{"other timestamp", at(time.Millisecond), sign(at(0), body), body, "signature"},
		{"no prefix", at(0), strings.TrimPrefix(sign(at(0), body), "sha256="), body, "signature"},
		{"no signature", at(0), "", body, "signature"},
		{"no number", "soon", sign("soon", body), body, "Unix milliseconds"},
	}
	for _, c := range cases {
		err := verify([]byte(secret), c.timestamp, c.signature, []byte(c.body), now)
		if (err == nil) != (c.problem == "") || (err != nil && !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %v, want a problem with %q", c.name, err, c.problem)
		}
	}
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	failures, err := parseFailures("500, 302,close,hang")
	if err != nil {
		t.Fatal(err)
	}
	rc := &receiver{secret: []byte(secret), now: time.Now, out: &out, failures: failures}
	server := httptest.NewServer(rc)
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	post := func(ctx context.Context, signature func(ts, body string) string) (int, error) {
		body := `{"event":"certificate.issued","cert_id":7}`
		ts := strconv.FormatInt(time.Now().UnixMilli(), 10)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-BB-Timestamp", ts)
		req.Header.Set("X-BB-Signature", signature(ts, body))
		req.Header.Set("X-BB-Delivery-Id", "9")
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	for _, want := range []int{500, 302} {
		if status, err := post(t.Context(), sign); err != nil || status != want {
			t.Errorf("status %d, %v; want %d", status, err, want)
		}
	}
	if _, err := post(t.Context(), sign); err == nil {
		t.Error("close: the connection stayed")
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := post(short, sign); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: %v, want a time-out", err)
	}
	if status, err := post(t.Context(), sign); err != nil || status != 204 {
		t.Errorf("status %d, %v; want 204", status, err)
	}
	if status, err := post(t.Context(), func(string, string) string { return "sha256=00" }); err != nil || status != 401 {
		t.Errorf("status %d, %v; want 401", status, err)
	}

	rc.mu.Lock()
	defer rc.mu.Unlock()
	var answered []string
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var d delivery
		if err := decoder.Decode(&d); err != nil {
			t.Fatal(err)
		}
		if d.Valid != (d.Answered != "401") || d.DeliveryID != "9" || !strings.Contains(string(d.Body), `"cert_id":7`) {
			t.Errorf("recorded %+v", d)
		}
		answered = append(answered, d.Answered)
	}
	if got := strings.Join(answered, ","); got != "500,302,close,hang,204,401" {
		t.Errorf("answered %s", got)
	}
	if _, err := parseFailures("500,sometimes"); err == nil {
		t.Error("an unknown failure was accepted")
	}
}
