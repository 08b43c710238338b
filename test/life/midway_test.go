package life_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// gate holds an authority's answer until the test has done something.
type gate struct {
	reached, open chan struct{}
	come, pass    sync.Once
}

func newGate(t *testing.T) *gate {
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	t.Cleanup(g.release)
	return g
}

func (g *gate) release() { g.pass.Do(func() { close(g.open) }) }

// answer performs the step and keeps its answer back.
func (g *gate) answer(w http.ResponseWriter, r *http.Request, honest http.HandlerFunc) {
	g.come.Do(func() { close(g.reached) })
	select {
	case <-g.open:
	case <-r.Context().Done():
		return
	}
	honest(w, r)
}

// midway is a program, two authorities and someone with a certificate that is
// assigned to a device.
type midway struct {
	*apptest.Program
	ca, other *hostile.CA
	me        *apptest.Caller
	device    *apptest.Device
	hook      *apptest.Receiver
	account   int64
	hookPath  string
}

func newMidway(t *testing.T, db sqldb.Config) *midway {
	t.Helper()
	m := &midway{ca: hostile.Start(t), other: hostile.Start(t), hook: apptest.NewReceiver(t)}
	c := apptest.Settings(t, db)
	c.Quota = []string{"attempts-per-hour=100000"}
	m.Program = apptest.Start(t, c, app.Options{}, nil)
	m.me = m.Person("me@example.org")
	m.device = m.me.Enrol(apptest.PublicID(1))
	var made struct{ ID int64 }
	m.me.Do("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": "ca", "email": "ops@example.org", "provider": "custom", "directory_url": m.ca.DirectoryURL, "ca_bundle_pem": m.ca.CABundlePEM + m.other.CABundlePEM,
	}, 201).Data(t, &made)
	m.account = made.ID
	return m
}

// certificate makes one that is assigned to the device.
func (m *midway) certificate(name string) int64 {
	m.T.Helper()
	id := m.me.Certificate(m.account, name)
	m.me.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", m.device.ID), map[string]any{"cert_id": id}, 204)
	return id
}

// settled waits until no attempt of the certificate is open and returns the
// newest; none when the certificate is gone.
func (m *midway) settled(cert int64) (last apptest.Issue) {
	m.T.Helper()
	apptest.Eventually(m.T, 2*time.Minute, "the attempt ends", func() bool {
		a := m.me.Try("GET", fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert), nil)
		if a.Status == 404 {
			return true
		}
		var all []apptest.Issue
		a.Data(m.T, &all)
		if len(all) == 0 {
			return true
		}
		last = all[0]
		return last.Status != "PENDING" && last.Status != "PROCESSING"
	})
	return last
}

// gatedSteps are the steps at which something else happens meanwhile.
var gatedSteps = []hostile.Step{hostile.NewOrder, hostile.Authorization, hostile.Challenge, hostile.Finalize, hostile.Certificate}

// Whatever happens to the parts of an issuance while the authority is at work,
// the attempt ends, nothing becomes a 5xx or an error in the log, and the next
// certificate is issued as usual.
func TestChangesInTheMiddleOfAnIssuance(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		m := newMidway(t, db)
		for number, step := range gatedSteps {
			for name, meanwhile := range m.meanwhiles(t) {
				t.Logf("%s at %s", name, step)
				var hook struct{ ID int64 }
				m.me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": m.hook.URL, "secret": apptest.HookSecret}, 201).Data(t, &hook)
				m.hookPath = fmt.Sprintf("/apiv1/me/service_webhooks/%d", hook.ID)
				cert := m.certificate(fmt.Sprintf("%s-%d.example.test", strings.ReplaceAll(name, " ", "-"), number))
				g := newGate(t)
				ca := m.ca
				ca.Always(step, g.answer)
				var begun apptest.Issue
				m.me.Do("POST", fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert), nil, 201).Data(t, &begun)
				apptest.Eventually(t, 2*time.Minute, name+" reaches "+string(step), func() bool {
					select {
					case <-g.reached:
						return true
					default:
						return false
					}
				})
				want := meanwhile(cert, begun.ID)
				ca.Always(step, nil)
				g.release()
				if end := m.settled(cert); want != "" && !strings.Contains(want, end.Status) {
					t.Errorf("%s at %s: %s %s, want %s", name, step, end.Status, end.ErrorMessage, want)
				}
				if strings.Contains(m.Log.String(), `"level":"ERROR"`) {
					t.Fatalf("%s at %s left an error in the log", name, step)
				}
				m.me.Try("DELETE", m.hookPath, nil)
			}
		}
		cert := m.certificate("last.example.test")
		if done := m.me.Issue(cert); done.Status != "SUCCESS" {
			t.Errorf("%+v", done)
		}
		m.device.Install(t, cert)
	})
}

// meanwhiles are what happens, and the ways in which the attempt may end then.
func (m *midway) meanwhiles(t *testing.T) map[string]func(cert, issueID int64) string {
	path := func(cert int64) string { return fmt.Sprintf("/apiv1/me/certificates/%d", cert) }
	account := fmt.Sprintf("/apiv1/me/acme-accounts/%d", m.account)
	return map[string]func(cert, issueID int64) string{
		"cancel": func(cert, issueID int64) string {
			m.me.Do("DELETE", fmt.Sprintf("%s/issues/%d", path(cert), issueID), nil, 204)
			m.me.Do("DELETE", fmt.Sprintf("%s/issues/%d", path(cert), issueID), nil, 409)
			return "CANCELLED"
		},
		"delete the certificate": func(cert, _ int64) string {
			m.me.Do("DELETE", path(cert), nil, 204)
			m.me.Do("GET", path(cert), nil, 404)
			return ""
		},
		"delete the account": func(int64, int64) string {
			m.me.Do("DELETE", account, nil, 409)
			return "SUCCESS"
		},
		"move the account": func(int64, int64) string {
			m.me.Do("PUT", account, map[string]any{"directory_url": m.other.DirectoryURL}, 200)
			m.ca, m.other = m.other, m.ca
			return "SUCCESS FAILED"
		},
		"take the account away": func(cert, _ int64) string {
			var other struct{ ID int64 }
			m.me.Do("POST", "/apiv1/me/acme-accounts", map[string]any{
				"name": "other", "provider": "custom", "directory_url": m.other.DirectoryURL, "ca_bundle_pem": m.other.CABundlePEM,
			}, 201).Data(t, &other)
			m.me.Do("PUT", path(cert), map[string]any{"acct_id": other.ID}, 200)
			return "SUCCESS FAILED"
		},
		"other names": func(cert, _ int64) string {
			m.me.Do("PUT", path(cert), map[string]any{"sans": []string{"another.example.test"}}, 200)
			return "SUCCESS FAILED"
		},
		"another policy": func(cert, _ int64) string {
			m.me.Do("PUT", path(cert), map[string]any{"policy": "DEVICE_REQUIRED"}, 200)
			return "SUCCESS"
		},
		"delete the device": func(int64, int64) string {
			m.me.Do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d", m.device.ID), nil, 204)
			m.device = m.me.Enrol(m.device.PublicID)
			return "SUCCESS"
		},
		"another key of the device": func(int64, int64) string {
			m.another(t)
			return "SUCCESS"
		},
		"unassign and assign": func(cert, _ int64) string {
			assignment := fmt.Sprintf("/apiv1/me/devices/%d/certificates", m.device.ID)
			m.me.Do("DELETE", fmt.Sprintf("%s/%d", assignment, cert), nil, 204)
			m.me.Do("POST", assignment, map[string]any{"cert_id": cert}, 204)
			return "SUCCESS"
		},
		"delete the webhook": func(int64, int64) string {
			m.me.Do("DELETE", m.hookPath, nil, 204)
			return "SUCCESS"
		},
		"issue again": func(cert, issueID int64) string {
			var same apptest.Issue
			m.me.Do("POST", path(cert)+"/issues", map[string]any{"force": true}, 200).Data(t, &same)
			if same.ID != issueID {
				t.Errorf("issue %d while %d is open", same.ID, issueID)
			}
			return "SUCCESS"
		},
	}
}

// another gives the device another key pair under its old name.
func (m *midway) another(t *testing.T) {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var flow struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	m.Anonymous().Do("POST", "/auth/device", map[string]any{"action": "device_start"}, 200).Data(t, &flow)
	m.me.Do("POST", "/auth/device", map[string]any{"action": "device_verify", "user_code": flow.UserCode, "device_id": m.device.ID}, 200)
	var ready struct {
		Code string `json:"registration_code"`
	}
	m.Anonymous().Do("POST", "/auth/device", map[string]any{"action": "device_poll", "device_code": flow.DeviceCode}, 200).Data(t, &ready)
	var registered struct {
		Session struct {
			AccessToken string `json:"access_token"`
		}
	}
	m.Anonymous().Do("POST", "/apiv1/device/registration", map[string]any{
		"user_id": m.me.UserID, "device_public_id": m.device.PublicID, "registration_code": ready.Code,
		"dev_pk": base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()),
	}, 200).Data(t, &registered)
	m.device.Caller, m.device.Key = m.Bearer(registered.Session.AccessToken), key
}
