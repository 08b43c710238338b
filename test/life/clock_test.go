package life_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// jumpWorld is a program on a skewed clock with certificates, a device and a
// webhook.
type jumpWorld struct {
	*apptest.Program
	apptest.Skew
	db     *sqldb.DB
	ca     *hostile.CA
	me     *apptest.Caller
	device *apptest.Device
	hook   *apptest.Receiver
	certs  []int64
}

func newJumpWorld(t *testing.T, certificates int) *jumpWorld {
	t.Helper()
	w := &jumpWorld{ca: hostile.Start(t), hook: apptest.NewReceiver(t)}
	w.Program = apptest.Start(t, apptest.Settings(t, dbtest.SQLiteConfig(t)), app.Options{Now: w.Now}, nil)
	var err error
	if w.db, err = app.OpenDatabase(t.Context(), w.Config, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.me = w.Person("me@example.org")
	w.device = w.me.Enrol(apptest.PublicID(1))
	w.me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": w.hook.URL, "event_key": "certificate.issued", "secret": apptest.HookSecret}, 201)
	var account struct{ ID int64 }
	w.me.Do("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": "ca", "email": "ops@example.org", "provider": "custom", "directory_url": w.ca.DirectoryURL, "ca_bundle_pem": w.ca.CABundlePEM,
	}, 201).Data(t, &account)
	for i := range certificates {
		cert := w.me.Certificate(account.ID, fmt.Sprintf("n%d.example.test", i))
		w.me.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", w.device.ID), map[string]any{"cert_id": cert}, 204)
		if done := w.me.Issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		w.certs = append(w.certs, cert)
	}
	apptest.Eventually(t, 2*time.Minute, "the webhooks are delivered", func() bool { return w.hook.Count() == certificates })
	return w
}

func (w *jumpWorld) number(query string, args ...any) (n int64) {
	w.T.Helper()
	if err := w.db.Reader().QueryRowContext(w.T.Context(), query, args...).Scan(&n); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// jump sets the clock off by so much and waits until the renewals have been
// looked through.
func (w *jumpWorld) jump(by time.Duration) {
	w.T.Helper()
	w.By.Store(int64(by))
	const sweeps = "SELECT COUNT(*) FROM river_job WHERE kind = 'issuance.sweep' AND state = 'completed'"
	before := w.number(sweeps)
	apptest.Eventually(w.T, 2*time.Minute, "a sweep takes place", func() bool { return w.number(sweeps) > before })
}

// A clock that goes wrong by an hour or by more than a year, and comes back,
// causes no mass renewal, ends no session for good and stops nothing
// (threats.md scenario 20).
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const certificates = 15
	w := newJumpWorld(t, certificates)
	var news apptest.Updates
	w.device.Do("GET", "/apiv1/devices/self/updates?cursor=0-0&limit=100", nil, 200).Data(t, &news)
	orders := w.ca.Orders()
	for _, by := range []time.Duration{time.Hour, -time.Hour, -400 * 24 * time.Hour} {
		w.jump(by)
		if n := w.ca.Orders() - orders; n != 0 {
			t.Errorf("%d orders after a jump of %s", n, by)
		}
		w.me.Do("GET", "/auth/profile", nil, 200)
		if by > 0 {
			w.device.Refreshed(t)
		}
		w.device.Do("GET", "/apiv1/devices/self/updates?cursor="+news.Cursor, nil, 204)
	}
	w.jump(400 * 24 * time.Hour) // everything has expired, says the clock
	if n := w.ca.Orders() - orders; n != 0 {
		t.Errorf("%d orders after a jump by 400 days", n)
	}
	if a := w.me.Try("GET", "/auth/profile", nil); a.Status != 401 {
		t.Errorf("a session of 400 days ago: %d", a.Status)
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
	w.me.Do("GET", "/auth/profile", nil, 200)
	if n := w.number("SELECT COUNT(*) FROM certificates WHERE next_renewal_at > not_after"); n != 0 {
		t.Errorf("%d certificates would renew after their end", n)
	}
	if n := w.number("SELECT COUNT(*) FROM issuances WHERE status IN ('PENDING', 'PROCESSING')"); n != 0 {
		t.Errorf("%d attempts are open", n)
	}
	delivered := w.hook.Count()
	done := w.me.Issue(w.certs[0])
	if done.Status != "SUCCESS" {
		t.Errorf("%+v", done)
	}
	apptest.Eventually(t, 2*time.Minute, "a webhook is delivered", func() bool { return w.hook.Count() > delivered })
	w.device.Refreshed(t)
	a := w.device.Do("GET", "/apiv1/devices/self/updates?cursor="+cursor, nil, 200)
	if !strings.Contains(string(a.Body), "cert.updated") {
		t.Errorf("news after the jumps: %s", a.Body)
	}
	w.Person("other@example.org").Enrol(apptest.PublicID(2))
}
