package acme_test

import (
	"errors"
	"fmt"
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
