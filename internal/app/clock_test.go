package app_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// skew is a wall clock that jumps.
type skew struct{ by atomic.Int64 }

func (s *skew) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

// jumpWorld is a program on a skewed clock with certificates, a device and a
// webhook.
type jumpWorld struct {
	*program
	skew
	db     *sqldb.DB
	ca     *hostile.CA
	me     *caller
	device *device
	hook   *receiver
	certs  []int64
}

func newJumpWorld(t *testing.T, certificates int) *jumpWorld {
	t.Helper()
	w := &jumpWorld{ca: hostile.Start(t), hook: newReceiver(t)}
	w.program = start(t, settings(t, dbtest.SQLiteConfig(t)), app.Options{Now: w.now}, nil)
	var err error
	if w.db, err = app.OpenDatabase(t.Context(), w.config, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.me = w.person("me@example.org")
	w.device = w.me.enrol(publicID(1))
	w.me.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": w.hook.URL, "event_key": "certificate.issued", "secret": hookSecret}, 201)
	var account struct{ ID int64 }
	w.me.do("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": "ca", "email": "ops@example.org", "provider": "custom", "directory_url": w.ca.DirectoryURL, "ca_bundle_pem": w.ca.CABundlePEM,
	}, 201).data(t, &account)
	for i := range certificates {
		cert := w.me.certificate(account.ID, fmt.Sprintf("n%d.example.test", i))
		w.me.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", w.device.ID), map[string]any{"cert_id": cert}, 204)
		if done := w.me.issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		w.certs = append(w.certs, cert)
	}
	eventually(t, 20*time.Second, "the webhooks are delivered", func() bool { return w.hook.count() == certificates })
	return w
}

func (w *jumpWorld) number(query string, args ...any) (n int64) {
	w.t.Helper()
	if err := w.db.Reader().QueryRowContext(w.t.Context(), query, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// jump sets the clock off by so much and waits until the renewals have been
// looked through.
func (w *jumpWorld) jump(by time.Duration) {
	w.t.Helper()
	w.by.Store(int64(by))
	const sweeps = "SELECT COUNT(*) FROM river_job WHERE kind = 'issuance.sweep' AND state = 'completed'"
	before := w.number(sweeps)
	eventually(w.t, 30*time.Second, "a sweep takes place", func() bool { return w.number(sweeps) > before })
}

// A clock that goes wrong by an hour or by more than a year, and comes back,
// causes no mass renewal, ends no session for good and stops nothing
// (threats.md scenario 20).
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const certificates = 15
	w := newJumpWorld(t, certificates)
	var news updates
	w.device.do("GET", "/apiv1/devices/self/updates?cursor=0-0&limit=100", nil, 200).data(t, &news)
	orders := w.ca.Orders()
	for _, by := range []time.Duration{time.Hour, -time.Hour, -400 * 24 * time.Hour} {
		w.jump(by)
		if n := w.ca.Orders() - orders; n != 0 {
			t.Errorf("%d orders after a jump of %s", n, by)
		}
		w.me.do("GET", "/auth/profile", nil, 200)
		if by > 0 {
			w.device.refreshed(t)
		}
		w.device.do("GET", "/apiv1/devices/self/updates?cursor="+news.Cursor, nil, 204)
	}
	w.jump(400 * 24 * time.Hour) // everything has expired, says the clock
	if n := w.ca.Orders() - orders; n != 0 {
		t.Errorf("%d orders after a jump by 400 days", n)
	}
	if a := w.me.try("GET", "/auth/profile", nil); a.status != 401 {
		t.Errorf("a session of 400 days ago: %d", a.status)
	}
	due := w.number("SELECT MIN(next_renewal_at) FROM certificates")
	w.jump(0)
	if now := w.number("SELECT MIN(next_renewal_at) FROM certificates"); now != due {
		t.Errorf("the first renewal is planned for %d, was for %d", now, due)
	}
	w.wellAfterwards(t, news.Cursor)
}

// wellAfterwards checks that the right time finds everything as it should be.
func (w *jumpWorld) wellAfterwards(t *testing.T, cursor string) {
	t.Helper()
	w.me.do("GET", "/auth/profile", nil, 200)
	if n := w.number("SELECT COUNT(*) FROM certificates WHERE next_renewal_at > not_after"); n != 0 {
		t.Errorf("%d certificates would renew after their end", n)
	}
	if n := w.number("SELECT COUNT(*) FROM issuances WHERE status IN ('PENDING', 'PROCESSING')"); n != 0 {
		t.Errorf("%d attempts are open", n)
	}
	delivered := w.hook.count()
	done := w.me.issue(w.certs[0])
	if done.Status != "SUCCESS" {
		t.Errorf("%+v", done)
	}
	eventually(t, 20*time.Second, "a webhook is delivered", func() bool { return w.hook.count() > delivered })
	w.device.refreshed(t)
	a := w.device.do("GET", "/apiv1/devices/self/updates?cursor="+cursor, nil, 200)
	if !strings.Contains(string(a.body), "cert.updated") {
		t.Errorf("news after the jumps: %s", a.body)
	}
	w.person("other@example.org").enrol(publicID(2))
}

// refreshed gives the device another pair of tokens.
func (d *device) refreshed(t *testing.T) {
	t.Helper()
	var pair struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	d.p.anonymous().do("POST", "/auth/refresh", map[string]any{"refresh_token": d.Refresh}, 200).data(t, &pair)
	d.caller, d.Refresh = d.p.bearer(pair.AccessToken), pair.RefreshToken
}
