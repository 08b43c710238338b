package threats_test

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
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// neighbours are two people at one program and one authority.
type neighbours struct {
	*apptest.Program
	alice, bob *apptest.Caller
	accounts   map[*apptest.Caller]int64
}

func newNeighbours(t *testing.T, db sqldb.Config) *neighbours {
	t.Helper()
	p, pebble := apptest.StartWithCA(t, db, acmetest.Options{})
	n := &neighbours{Program: p, accounts: map[*apptest.Caller]int64{}}
	n.alice, n.bob = p.Person("alice@example.org"), p.Person("bob@example.org")
	for _, who := range []*apptest.Caller{n.alice, n.bob} {
		n.accounts[who] = who.Account(pebble)
	}
	return n
}

// Nobody hears of another's certificates by naming them in a webhook's scope.
func TestWebhookScopesOfOthers(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		n := newNeighbours(t, db)
		cert := n.bob.Certificate(n.accounts[n.bob], "bob.example.test")
		spy, own := apptest.NewReceiver(t), apptest.NewReceiver(t)
		for _, scope := range []map[string]any{
			{"type": "all"}, {"type": "cert_id", "cert_id": cert}, {"type": "domain", "domain": "bob.example.test"}, {"type": "garbage"},
		} {
			n.alice.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": spy.URL, "secret": apptest.HookSecret, "scope": scope}, 201)
		}
		n.bob.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": own.URL, "secret": apptest.HookSecret}, 201)
		if done := n.bob.Issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		apptest.Eventually(t, 2*time.Minute, "bob hears of it", func() bool { return own.Count() == 1 })
		if done := n.alice.Issue(n.alice.Certificate(n.accounts[n.alice], "alice.example.test")); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		apptest.Eventually(t, 2*time.Minute, "alice hears of hers", func() bool { return spy.Count() >= 2 })
		for _, event := range spy.Bodies {
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
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		n := newNeighbours(t, db)
		good, sibling := n.alice.Enrol(apptest.PublicID(1)), n.alice.Enrol(apptest.PublicID(2))
		cert := n.alice.Certificate(n.accounts[n.alice], "a.example.test")
		n.alice.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", good.ID), map[string]any{"cert_id": cert}, 204)
		if done := n.alice.Issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		stranger := n.bob.Enrol(apptest.PublicID(3))
		for _, d := range []*apptest.Device{sibling, stranger} {
			for _, path := range []string{"", "/deploy-materials", "/bundle"} {
				foreign := d.Try("GET", fmt.Sprintf("/apiv1/devices/self/certificates/%d%s", cert, path), nil)
				absent := d.Try("GET", "/apiv1/devices/self/certificates/4611686018427387904"+path, nil)
				if foreign.Status != 404 || string(foreign.Body) != string(absent.Body) {
					t.Errorf("%d %s, absent %d %s", foreign.Status, foreign.Body, absent.Status, absent.Body)
				}
			}
			d.Do("GET", "/apiv1/me/certificates", nil, 401)
			d.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), map[string]any{"cert_id": cert}, 401)
		}
		var news apptest.Updates
		good.Do("GET", "/apiv1/devices/self/updates?cursor=0-0", nil, 200).Data(t, &news)
		if a := stranger.Try("GET", "/apiv1/devices/self/updates?cursor="+news.Cursor, nil); a.Status == 200 && strings.Contains(string(a.Body), "cert.") {
			t.Errorf("with another's cursor: %s", a.Body)
		}

		// Bob says that his machine is Alice's.
		first := good.Install(t, cert)
		if id := n.bob.Claim(t, apptest.PublicID(1)); id == good.ID {
			t.Fatal("bob has alice's device")
		}
		if got := good.Install(t, cert); got != first {
			t.Errorf("serial %s, before %s", got, first)
		}
		good.Do("GET", "/apiv1/devices/self/install-config", nil, 200)
		n.alice.Do("GET", "/apiv1/me/devices/by-public-id/"+apptest.PublicID(1), nil, 200)
	})
}

// A user who is disabled, and what belongs to them, gets nothing more at once:
// not by session, not by refreshing, not by device.
func TestDisabledUserIsOut(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		n := newNeighbours(t, db)
		d := n.alice.Enrol(apptest.PublicID(1))
		cert := n.alice.Certificate(n.accounts[n.alice], "a.example.test")
		n.alice.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), map[string]any{"cert_id": cert}, 204)
		if done := n.alice.Issue(cert); done.Status != "SUCCESS" {
			t.Fatalf("%+v", done)
		}
		users, done, err := app.Users(t.Context(), n.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		var waiting sync.WaitGroup
		waiting.Go(func() { // a long poll that was let in before
			d.Try("GET", "/apiv1/devices/self/updates?cursor=0-0&wait=1", nil)
		})
		if err := users.DisableUser(t.Context(), n.alice.UserID); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		n.alice.Do("GET", "/auth/profile", nil, 401)
		n.alice.Do("GET", fmt.Sprintf("/apiv1/me/certificates/%d/export?format=pem", cert), nil, 401)
		for _, path := range []string{"updates?cursor=0-0", fmt.Sprintf("certificates/%d/deploy-materials", cert), "install-config"} {
			// What another process changes is seen within a second.
			apptest.Eventually(t, 2*time.Minute, path+" is refused", func() bool { return d.Try("GET", "/apiv1/devices/self/"+path, nil).Status == 403 })
		}
		n.Anonymous().Do("POST", "/auth/refresh", map[string]any{"refresh_token": d.Refresh}, 503) // which agents ask again
		n.Anonymous().Do("POST", "/auth/general", map[string]any{"action": "login", "email": "alice@example.org", "password": apptest.Password}, 401)
		n.bob.Do("GET", "/auth/profile", nil, 200)
	})
}

// A webhook that is deleted while its receiver hangs gets nothing more, and
// harms nobody else's.
func TestWebhookDeletedWhileDelivering(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		me := p.Person("me@example.org")
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
		other := apptest.NewReceiver(t)
		var first, second struct{ ID int64 }
		me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": hanging.URL, "secret": apptest.HookSecret}, 201).Data(t, &first)
		me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": other.URL, "secret": apptest.HookSecret}, 201).Data(t, &second)
		path := func(id int64) string { return fmt.Sprintf("/apiv1/me/service_webhooks/%d", id) }
		me.Do("POST", path(first.ID)+"/test", nil, 201)
		apptest.Eventually(t, 2*time.Minute, "the receiver is called", func() bool {
			select {
			case <-reached:
				return true
			default:
				return false
			}
		})
		me.Do("DELETE", path(first.ID), nil, 204)
		me.Do("GET", path(first.ID)+"/deliveries", nil, 404)
		me.Do("POST", path(first.ID)+"/test", nil, 404)
		release()
		me.Do("POST", path(second.ID)+"/test", nil, 201)
		apptest.Eventually(t, 2*time.Minute, "the other is called", func() bool { return other.Count() == 1 })
		if strings.Contains(p.Log.String(), `"level":"ERROR"`) {
			t.Error("an error in the log")
		}
	})
}
