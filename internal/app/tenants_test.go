package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// neighbours are two people at one program and one authority.
type neighbours struct {
	*program
	alice, bob *caller
	accounts   map[*caller]int64
}

func newNeighbours(t *testing.T, db sqldb.Config) *neighbours {
	t.Helper()
	p, pebble := startWithCA(t, db, acmetest.Options{})
	n := &neighbours{program: p, accounts: map[*caller]int64{}}
	n.alice, n.bob = p.person("alice@example.org"), p.person("bob@example.org")
	for _, who := range []*caller{n.alice, n.bob} {
		n.accounts[who] = who.account(pebble)
	}
	return n
}

// Nobody hears of another's certificates by naming them in a webhook's scope.
func TestWebhookScopesOfOthers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		n := newNeighbours(t, db)
		cert := n.bob.certificate(n.accounts[n.bob], "bob.example.test")
		spy, own := newReceiver(t), newReceiver(t)
		for _, scope := range []map[string]any{
			{"type": "all"}, {"type": "cert_id", "cert_id": cert}, {"type": "domain", "domain": "bob.example.test"}, {"type": "garbage"},
		} {
			n.alice.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": spy.URL, "secret": hookSecret, "scope": scope}, 201)
		}
		n.bob.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": own.URL, "secret": hookSecret}, 201)
		if done := n.bob.issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		eventually(t, 20*time.Second, "bob hears of it", func() bool { return own.count() == 1 })
		if done := n.alice.issue(n.alice.certificate(n.accounts[n.alice], "alice.example.test")); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		eventually(t, 20*time.Second, "alice hears of hers", func() bool { return spy.count() >= 2 })
		for _, event := range spy.bodies {
			if event["cert_id"] == float64(cert) || event["user_id"] != float64(n.alice.UserID) {
				t.Errorf("alice was told %v", event)
			}
		}
	})
}

// A device takes nothing that is not assigned to it, whosever it is, and a
// device id that another person has already gives no way to that device
// (threats.md scenario 17).
func TestHostileDevice(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		n := newNeighbours(t, db)
		good, sibling := n.alice.enrol(publicID(1)), n.alice.enrol(publicID(2))
		cert := n.alice.certificate(n.accounts[n.alice], "a.example.test")
		n.alice.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", good.ID), map[string]any{"cert_id": cert}, 204)
		if done := n.alice.issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		stranger := n.bob.enrol(publicID(3))
		for _, d := range []*device{sibling, stranger} {
			for _, path := range []string{"", "/deploy-materials", "/bundle"} {
				foreign := d.try("GET", fmt.Sprintf("/apiv1/devices/self/certificates/%d%s", cert, path), nil)
				absent := d.try("GET", "/apiv1/devices/self/certificates/4611686018427387904"+path, nil)
				if foreign.status != 404 || string(foreign.body) != string(absent.body) {
					t.Errorf("%d %s, absent %d %s", foreign.status, foreign.body, absent.status, absent.body)
				}
			}
			d.do("GET", "/apiv1/me/certificates", nil, 401)
			d.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), map[string]any{"cert_id": cert}, 401)
		}
		var news updates
		good.do("GET", "/apiv1/devices/self/updates?cursor=0-0", nil, 200).data(t, &news)
		if a := stranger.try("GET", "/apiv1/devices/self/updates?cursor="+news.Cursor, nil); a.status == 200 && strings.Contains(string(a.body), "cert.") {
			t.Errorf("with another's cursor: %s", a.body)
		}

		// Bob says that his machine is Alice's.
		first := good.install(t, cert)
		if id := n.bob.claim(t, publicID(1)); id == good.ID {
			t.Fatal("bob has alice's device")
		}
		if got := good.install(t, cert); got != first {
			t.Errorf("serial %s, before %s", got, first)
		}
		good.do("GET", "/apiv1/devices/self/install-config", nil, 200)
		n.alice.do("GET", "/apiv1/me/devices/by-public-id/"+publicID(1), nil, 200)
	})
}

// A user who is disabled, and what belongs to them, gets nothing more at once:
// not by session, not by refreshing, not by device.
func TestDisabledUserIsOut(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		n := newNeighbours(t, db)
		d := n.alice.enrol(publicID(1))
		cert := n.alice.certificate(n.accounts[n.alice], "a.example.test")
		n.alice.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), map[string]any{"cert_id": cert}, 204)
		if done := n.alice.issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		users, done, err := app.Users(t.Context(), n.config)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		var waiting sync.WaitGroup
		waiting.Go(func() { // a long poll that was let in before
			d.try("GET", "/apiv1/devices/self/updates?cursor=0-0&wait=1", nil)
		})
		if err := users.DisableUser(t.Context(), n.alice.UserID); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		n.alice.do("GET", "/auth/profile", nil, 401)
		n.alice.do("GET", fmt.Sprintf("/apiv1/me/certificates/%d/export?format=pem", cert), nil, 401)
		for _, path := range []string{"updates?cursor=0-0", fmt.Sprintf("certificates/%d/deploy-materials", cert), "install-config"} {
			// What another process changes is seen within a second.
			eventually(t, 5*time.Second, path+" is refused", func() bool { return d.try("GET", "/apiv1/devices/self/"+path, nil).status == 403 })
		}
		n.anonymous().do("POST", "/auth/refresh", map[string]any{"refresh_token": d.Refresh}, 403)
		n.anonymous().do("POST", "/auth/general", map[string]any{"action": "login", "email": "alice@example.org", "password": password}, 401)
		n.bob.do("GET", "/auth/profile", nil, 200)
	})
}

// A webhook that is deleted while its receiver hangs gets nothing more, and
// harms nobody else's.
func TestWebhookDeletedWhileDelivering(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		me := p.person("me@example.org")
		var calls sync.Map
		reached, open := make(chan struct{}, 10), make(chan struct{})
		hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			calls.Store(r.Header.Get("X-BB-Delivery-Id"), true)
			reached <- struct{}{}
			<-open
			w.WriteHeader(http.StatusInternalServerError)
		}))
		t.Cleanup(hanging.Close)
		release := sync.OnceFunc(func() { close(open) })
		t.Cleanup(release)
		other := newReceiver(t)
		var first, second struct{ ID int64 }
		me.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": hanging.URL, "secret": hookSecret}, 201).data(t, &first)
		me.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": other.URL, "secret": hookSecret}, 201).data(t, &second)
		path := func(id int64) string { return fmt.Sprintf("/apiv1/me/service_webhooks/%d", id) }
		me.do("POST", path(first.ID)+"/test", nil, 201)
		eventually(t, 20*time.Second, "the receiver is called", func() bool {
			select {
			case <-reached:
				return true
			default:
				return false
			}
		})
		me.do("DELETE", path(first.ID), nil, 204)
		me.do("GET", path(first.ID)+"/deliveries", nil, 404)
		me.do("POST", path(first.ID)+"/test", nil, 404)
		release()
		me.do("POST", path(second.ID)+"/test", nil, 201)
		eventually(t, 20*time.Second, "the other is called", func() bool { return other.count() == 1 })
		if strings.Contains(p.log.String(), `"level":"ERROR"`) {
			t.Error("an error in the log")
		}
	})
}

// claim registers a device under an id that may be taken, and returns the id of
// its record, 0 when it was refused.
func (c *caller) claim(t *testing.T, publicID string) int64 {
	t.Helper()
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	c.p.anonymous().do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).data(t, &flow)
	c.do("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode}, 200)
	var ready struct {
		Code string `json:"registration_code"`
	}
	c.p.anonymous().do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).data(t, &ready)
	var made struct{ Device struct{ ID int64 } }
	a := c.p.anonymous().try("POST", "/apiv1/device/registration", map[string]any{
		"user_id": c.UserID, "device_public_id": publicID, "registration_code": ready.Code, "dev_pk": somePublicKey,
	})
	if a.status < 300 {
		a.data(t, &made)
	}
	return made.Device.ID
}
