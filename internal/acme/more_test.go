package acme_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
)

func TestKeyRoundTrip(t *testing.T) {
	t.Parallel()
	key, err := acme.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := acme.MarshalKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := acme.ParseKey(der); err != nil || !back.Equal(key) {
		t.Errorf("parsed: %v", err)
	}
	if _, err := acme.ParseKey(der[:len(der)-1]); err == nil {
		t.Error("half a key was parsed")
	}
	client := newClient(t, "https://ca.example/dir", "", acme.Options{})
	if _, err := client.Register(t.Context(), acme.Registration{}); !errors.Is(err, acme.ErrUnsupported) {
		t.Errorf("no key: %v", err)
	}
}

func TestRegisterSeesADeadAccount(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	ca.Next(hostile.NewAccount, hostile.With(map[string]any{"status": "deactivated"}))
	if err := f.register(t.Context()); acme.AsProblem(err) == nil || acme.AsProblem(err).Class != acme.AccountGone {
		t.Errorf("deactivated: %v", err)
	}
	ca.Next(hostile.NewAccount, hostile.Location(""))
	if err := f.register(t.Context()); !errors.Is(err, acme.ErrBadAnswer) {
		t.Errorf("no URL: %v", err)
	}
}

func TestReplacesIsDroppedWhenTaken(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	if err := f.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ca.Next(hostile.NewOrder, hostile.Problem(409, "alreadyReplaced", "taken"))
	order, err := f.client.NewOrder(t.Context(), f.account, acme.OrderRequest{Names: f.names, Replaces: "aki.serial", NotAfter: time.Now().Add(time.Hour)})
	if err != nil || order.URL == "" || ca.Orders() != 1 {
		t.Errorf("order %s, %d orders, %v", order.URL, ca.Orders(), err)
	}
}

func TestRenewalInfo(t *testing.T) {
	t.Parallel()
	ca, f := hostileFlow(t, acme.Options{})
	chain, err := f.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	window, err := f.client.RenewalInfo(t.Context(), chain.Leaf)
	if err != nil || window.RetryAfter != 6*time.Hour || !window.End.After(window.Start) {
		t.Errorf("window %+v, %v", window, err)
	}
	for name, answer := range map[string]hostile.Answer{
		"no window": hostile.With(map[string]any{"suggestedWindow": nil}),
		"backwards": hostile.With(map[string]any{"suggestedWindow": map[string]any{"start": "2030-01-02T00:00:00Z", "end": "2030-01-01T00:00:00Z"}}),
		"garbage":   hostile.Garbage(), "page": hostile.HTML(), "broken": hostile.Broken(),
	} {
		ca.Next(hostile.RenewalInfo, answer)
		if _, err := f.client.RenewalInfo(t.Context(), chain.Leaf); acme.AsProblem(err) == nil || acme.AsProblem(err).Class != acme.Retry {
			t.Errorf("%s: %v", name, err)
		}
	}
	ca.Next(hostile.Directory, hostile.With(map[string]any{"renewalInfo": nil}))
	silent := newClient(t, ca.DirectoryURL, ca.CABundlePEM, acme.Options{})
	if _, err := silent.RenewalInfo(t.Context(), chain.Leaf); !errors.Is(err, acme.ErrUnsupported) {
		t.Errorf("CA without renewal information: %v", err)
	}
}

func TestDirectoryIsFetchedOnceAnHourAndOldBeatsNone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca, f := hostileFlow(t, acme.Options{Now: func() time.Time { return now }})
	for range 3 {
		if err := f.register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := ca.Requests(hostile.Directory); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	now = now.Add(2 * time.Hour)
	ca.Next(hostile.Directory, hostile.Broken())
	if err := f.register(t.Context()); err != nil {
		t.Errorf("directory away: %v", err)
	}
	if n := ca.Requests(hostile.Directory); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}

func TestPoolSharesAndBounds(t *testing.T) {
	t.Parallel()
	pool := acme.NewPool(acme.Options{})
	defer pool.Close()
	get := func(url string) *acme.Client {
		t.Helper()
		client, err := pool.Client(acme.Directory{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	first := get("https://ca.example/dir")
	for i := range 63 {
		get(fmt.Sprintf("https://ca-%d.example/dir", i))
	}
	if get("https://ca.example/dir") != first {
		t.Error("the same authority got another client")
	}
	get("https://one-more.example/dir") // drops ca-0, the one longest unused
	if get("https://ca.example/dir") != first {
		t.Error("a client in use was dropped")
	}
	if _, err := pool.Client(acme.Directory{URL: "http://ca.example"}); !errors.Is(err, acme.ErrBadURL) {
		t.Errorf("plain HTTP: %v", err)
	}
}

// Users name directories, so that nothing may stay of one that is not used any
// more: 2,000 contents of 20 KB each go through the pool and leave next to
// nothing behind. No test runs beside it, since it measures the heap.
func TestDirectoriesDoNotStay(t *testing.T) { //nolint:paralleltest // see above
	var served atomic.Int64
	long := strings.Repeat("x", 20<<10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := "https://" + r.Host
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"newNonce":"%[1]s/n/%[2]d","newAccount":"%[1]s/a","newOrder":"%[1]s/o","meta":{"profiles":{"p%[2]d":"%[3]s"}}}`,
			base, served.Add(1), long)
	}))
	defer server.Close()
	var now atomic.Int64
	pool := acme.NewPool(acme.Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Now:        func() time.Time { return time.Unix(now.Load(), 0) },
	})
	defer pool.Close()
	roots := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	for i := range 50 {
		client, err := pool.Client(acme.Directory{URL: fmt.Sprintf("%s/%d", server.URL, i), RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			now.Add(7200) // older than an hour: fetched again
			meta, err := client.Meta(t.Context())
			if err != nil || len(meta.Profiles) != 1 {
				t.Fatalf("%+v: %v", meta, err)
			}
		}
	}
	if served.Load() != 2000 {
		t.Errorf("%d directories were fetched, want 2000", served.Load())
	}
	if grown := held() - before; grown > 20<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}
