package outbound_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
)

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func TestAllowedRangeIsReachedOverHTTP2WithItsRoots(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // must not be asked

	client := outbound.New(outbound.Options{AllowCIDRs: loopback(), RootCAs: roots})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := outbound.ReadLimited(resp.Body, 100)
	if err != nil || string(body) != "HTTP/2.0" {
		t.Errorf("body %q, error %v", body, err)
	}

	stranger := outbound.New(outbound.Options{AllowCIDRs: loopback()})
	if err := get(t, stranger, server.URL); outbound.Public(err) != "the TLS handshake failed" {
		t.Errorf("unknown root: %q (%v)", outbound.Public(err), err)
	}
}

func TestPortsCanBeLimited(t *testing.T) {
	canary := startCanary(t)
	client := outbound.New(outbound.Options{AllowCIDRs: loopback(), AllowPorts: []uint16{443}})
	if err := get(t, client, "http://127.0.0.1:"+canary.port); !errors.Is(err, outbound.ErrRefusedTarget) {
		t.Errorf("error %v, want a refused target", err)
	}
	if n := canary.connects.Load(); n != 0 {
		t.Errorf("the canary saw %d connects", n)
	}
}

func TestTimeoutCoversHeadersAndBody(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no end": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		server := httptest.NewServer(handler)
		client := outbound.New(outbound.Options{AllowCIDRs: loopback(), Timeout: 50 * time.Millisecond})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		resp, err := client.Do(req)
		if err == nil {
			_, err = outbound.ReadLimited(resp.Body, 100)
			_ = resp.Body.Close()
		}
		if outbound.Public(err) != "no answer in time" {
			t.Errorf("%s: %q (%v)", name, outbound.Public(err), err)
		}
		server.CloseClientConnections()
		server.Close()
	}
}

func TestFaultMode(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	fault := outbound.NoFault
	client := outbound.New(outbound.Options{
		AllowCIDRs: loopback(),
		Fault:      func(*http.Request) outbound.Fault { return fault },
	})
	for _, step := range []struct {
		fault  outbound.Fault
		served int64
		lost   bool
	}{{outbound.NoFault, 1, false}, {outbound.LoseAnswer, 2, true}, {outbound.LoseRequest, 2, true}} {
		fault = step.fault
		err := get(t, client, server.URL)
		if step.lost != (err != nil) || step.lost && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fault %d: error %v", step.fault, err)
		}
		if step.lost && outbound.Public(err) != "no answer in time" {
			t.Errorf("fault %d: public sentence %q", step.fault, outbound.Public(err))
		}
		if got := served.Load(); got != step.served {
			t.Errorf("fault %d: served %d, want %d", step.fault, got, step.served)
		}
	}
}

func TestCookiesAreNotKept(t *testing.T) {
	var cookies atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int64(len(r.Cookies())))
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	}))
	defer server.Close()
	client := outbound.New(outbound.Options{AllowCIDRs: loopback()})
	for range 2 {
		if err := get(t, client, server.URL); err != nil {
			t.Fatal(err)
		}
	}
	if n := cookies.Load(); n != 0 {
		t.Errorf("%d cookies came back", n)
	}
}

func TestPublicNamesNothingOfTheOtherSide(t *testing.T) {
	client := outbound.New(outbound.Options{
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("secret-upstream-text") },
	})
	err := get(t, client, "http://hook.example/?token=planted")
	got := outbound.Public(err)
	if err == nil || got == "" || strings.Contains(got, "secret") || strings.Contains(got, "planted") || strings.Contains(got, "hook") {
		t.Errorf("public sentence %q for %v", got, err)
	}
	if outbound.Public(nil) != "" {
		t.Error("a sentence for no error")
	}
}
