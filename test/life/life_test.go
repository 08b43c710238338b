package life_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// The main job: from a sign-in to the key in the device's hands, the webhook
// outside, and a second issue that does it again.
func TestLife(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := apptest.StartWithCA(t, db, acmetest.Options{})
		me := p.Person("me@example.org")
		hook := apptest.NewReceiver(t)
		me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": hook.URL, "event_key": "certificate.issued", "secret": apptest.HookSecret}, 201)
		device := me.Enrol(apptest.PublicID(1))
		cert := me.Certificate(me.Account(pebble), "a.example.test", "www.a.example.test")
		me.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", device.ID), map[string]any{"cert_id": cert}, 204)
		materials := fmt.Sprintf("/apiv1/devices/self/certificates/%d/deploy-materials", cert)
		if early := device.Do("GET", materials, nil, 409); !strings.Contains(string(early.Body), "NOT_ISSUED") {
			t.Errorf("before the issue: %s", early.Body)
		}
		done := me.Issue(cert)
		if done.Status != "SUCCESS" || len(done.Log) < 5 || done.OrderURL == "" || done.Trigger != "manual" {
			t.Fatalf("%+v", done)
		}
		first := device.Install(t, cert)
		var news apptest.Updates
		device.Do("GET", "/apiv1/devices/self/updates?cursor=0-0", nil, 200).Data(t, &news)
		last := news.Signals[len(news.Signals)-1]
		if last.Type != "cert.updated" || last.Ref["cert_id"] != float64(cert) || last.Ref["wrap_ready"] != true || last.Ref["serial"] != first {
			t.Errorf("the last signal is %+v", last)
		}
		idle := device.Do("GET", "/apiv1/devices/self/updates?cursor="+news.Cursor, nil, 204)
		if idle.Header.Get("ETag") != `"`+news.Cursor+`"` || idle.Header.Get("X-Poll-Interval") == "" {
			t.Errorf("204 with %v", idle.Header)
		}
		apptest.Eventually(t, 2*time.Minute, "the webhook is delivered", func() bool { return hook.Count() == 1 })
		if second := me.Issue(cert); second.Status != "SUCCESS" {
			t.Fatalf("%+v", second)
		}
		if again := device.Install(t, cert); again == first {
			t.Error("the second issue brought the same serial")
		}
		apptest.Eventually(t, 2*time.Minute, "the second webhook is delivered", func() bool { return hook.Count() == 2 })
		me.Do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d/certificates/%d", device.ID, cert), nil, 204)
		device.Do("GET", materials, nil, 404)
	})
}

// Fifty triggers at once place one order.
func TestFiftyTriggersOneOrder(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := apptest.StartWithCA(t, db, acmetest.Options{})
		me := p.Person("me@example.org")
		cert := me.Certificate(me.Account(pebble), "fifty.example.test")
		path := fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert)
		var group sync.WaitGroup
		var mu sync.Mutex
		started := map[int64]int{}
		for range 50 {
			group.Go(func() {
				a := me.Try("POST", path, nil)
				var i apptest.Issue
				if a.Status != 200 && a.Status != 201 {
					t.Errorf("%d %s", a.Status, a.Body)
					return
				}
				a.Data(t, &i)
				mu.Lock()
				defer mu.Unlock()
				started[i.ID]++
			})
		}
		group.Wait()
		if len(started) != 1 {
			t.Errorf("%d attempts were started: %v", len(started), started)
		}
		var history []apptest.Issue
		apptest.Eventually(t, 2*time.Minute, "the issuance ends", func() bool {
			me.Do("GET", path+"/history", nil, 200).Data(t, &history)
			return history[0].Status == "SUCCESS"
		})
		if len(history) != 1 {
			t.Errorf("history has %d rows", len(history))
		}
	})
}
