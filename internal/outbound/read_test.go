package outbound_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/outbound"
)

func TestReadLimited(t *testing.T) {
	if data, err := outbound.ReadLimited(strings.NewReader("abc"), 3); err != nil || string(data) != "abc" {
		t.Errorf("at the limit: %q, %v", data, err)
	}
	if data, err := outbound.ReadLimited(strings.NewReader("abcd"), 3); !errors.Is(err, outbound.ErrTooLarge) || data != nil {
		t.Errorf("above the limit: %q, %v", data, err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const limit = 8 * time.Hour
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, " 7 ": 7 * time.Second, "28800": limit, "28801": limit,
		"99999999999999999999999": limit, "-1": 0, "1.5": 0, "5s": 0, "soon": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:04:04 GMT": 0,
		"Sat, 03 Jan 2026 03:04:05 GMT": limit,
	} {
		if got := outbound.RetryAfter(http.Header{"Retry-After": {value}}, now, limit); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestGuardExceptions(t *testing.T) {
	guard := outbound.NewGuard([]netip.Prefix{netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("fd00::/8")})
	for host, refused := range map[string]bool{
		"10.200.0.1": false, "::ffff:10.0.0.1": false, "fd12::1": false, "8.8.8.8": false, "2606:4700::1111": false,
		"example.com": false, "1e100.net": false, "192.168.0.1": true, "localhost": true, "127.0.0.1": true, "": true,
		"0xabc": true, "0xabc.example": false, "1.2.3.4.5": true, "fe80::1": true,
	} {
		if err := guard.CheckHost(host); (err != nil) != refused || refused && !errors.Is(err, outbound.ErrRefusedTarget) {
			t.Errorf("%q: %v, want refused %v", host, err, refused)
		}
	}
}
