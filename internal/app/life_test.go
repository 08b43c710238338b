package app_test

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
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
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

const hookSecret = "canary-webhook-secret-91d2"

// receiver is a webhook receiver that verifies signatures as api.md says.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []map[string]any
	ids    map[string]int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{ids: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		mac := hmac.New(sha256.New, []byte(hookSecret))
		fmt.Fprintf(mac, "%s.%s", req.Header.Get("X-BB-Timestamp"), body)
		if got := req.Header.Get("X-BB-Signature"); err != nil || got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("signature %q of %s: %v", got, body, err)
		}
		var event map[string]any
		if err := json.Unmarshal(body, &event); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ids[req.Header.Get("X-BB-Delivery-Id")]++
		r.bodies = append(r.bodies, event)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bodies)
}

// startWithCA runs the program where Pebble looks for HTTP-01 answers.
func startWithCA(t *testing.T, db sqldb.Config, o acmetest.Options) (*program, *acmetest.Server) {
	t.Helper()
	pebble := acmetest.Start(t, o)
	return start(t, settings(t, db), app.Options{}, pebble.HTTPListener), pebble
}

// account makes an ACME account at Pebble.
func (c *caller) account(pebble *acmetest.Server) int64 {
	c.p.t.Helper()
	var account struct{ ID int64 }
	c.do("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": "pebble", "email": "ops@example.org", "provider": "custom", "directory_url": pebble.DirectoryURL, "ca_bundle_pem": pebble.CABundlePEM,
	}, 201).data(c.p.t, &account)
	return account.ID
}

type record struct {
	ID           int64
	SerialNumber string `json:"serial_number"`
	Status       string
	Cert         string
}

type issue struct {
	ID           int64
	Status       string
	Trigger      string
	OrderURL     string `json:"order_url"`
	ErrorMessage string `json:"error_message"`
	Log          []struct{ Step, Message string }
}

// certificate makes a record.
func (c *caller) certificate(account int64, names ...string) int64 {
	c.p.t.Helper()
	var made record
	c.do("POST", "/apiv1/me/certificates", map[string]any{
		"action": "create", "acct_id": account, "domain_name": names[0], "sans": names[1:], "key_algorithm": "ECDSA", "policy": "HYBRID",
	}, 201).data(c.p.t, &made)
	return made.ID
}

// issue starts an issuance and waits for its end.
func (c *caller) issue(cert int64) issue {
	c.p.t.Helper()
	var started issue
	path := fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert)
	c.do("POST", path, nil, 201).data(c.p.t, &started)
	var now issue
	eventually(c.p.t, 30*time.Second, "the issuance ends", func() bool {
		c.do("GET", fmt.Sprintf("%s/%d", path, started.ID), nil, 200).data(c.p.t, &now)
		return now.Status != "PENDING" && now.Status != "PROCESSING"
	})
	return now
}

type updates struct {
	Cursor  string
	Signals []struct {
		Type string
		TSMS int64 `json:"ts_ms"`
		Ref  map[string]any
	}
}

// The main job: from a sign-in to the key in the device's hands, the webhook
// outside, and a second issue that does it again.
func TestLife(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := startWithCA(t, db, acmetest.Options{})
		me := p.person("me@example.org")
		hook := newReceiver(t)
		me.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": hook.URL, "event_key": "certificate.issued", "secret": hookSecret}, 201)
		device := me.enrol(publicID(1))
		cert := me.certificate(me.account(pebble), "a.example.test", "www.a.example.test")
		me.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", device.ID), map[string]any{"cert_id": cert}, 204)
		materials := fmt.Sprintf("/apiv1/devices/self/certificates/%d/deploy-materials", cert)
		if early := device.do("GET", materials, nil, 409); !strings.Contains(string(early.body), "NOT_ISSUED") {
			t.Errorf("before the issue: %s", early.body)
		}
		done := me.issue(cert)
		if done.Status != "SUCCESS" || len(done.Log) < 5 || done.OrderURL == "" || done.Trigger != "manual" {
			t.Fatalf("%+v", done)
		}
		first := device.install(t, cert)
		var news updates
		device.do("GET", "/apiv1/devices/self/updates?cursor=0-0", nil, 200).data(t, &news)
		last := news.Signals[len(news.Signals)-1]
		if last.Type != "cert.updated" || last.Ref["cert_id"] != float64(cert) || last.Ref["wrap_ready"] != true || last.Ref["serial"] != first {
			t.Errorf("the last signal is %+v", last)
		}
		idle := device.do("GET", "/apiv1/devices/self/updates?cursor="+news.Cursor, nil, 204)
		if idle.header.Get("ETag") != `"`+news.Cursor+`"` || idle.header.Get("X-Poll-Interval") == "" {
			t.Errorf("204 with %v", idle.header)
		}
		eventually(t, 10*time.Second, "the webhook is delivered", func() bool { return hook.count() == 1 })
		if second := me.issue(cert); second.Status != "SUCCESS" {
			t.Fatalf("%+v", second)
		}
		if again := device.install(t, cert); again == first {
			t.Error("the second issue brought the same serial")
		}
		eventually(t, 10*time.Second, "the second webhook is delivered", func() bool { return hook.count() == 2 })
		me.do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d/certificates/%d", device.ID, cert), nil, 204)
		device.do("GET", materials, nil, 404)
	})
}

// install fetches the certificate and its key, checks that they fit, and
// returns the serial number.
func (d *device) install(t *testing.T, cert int64) string {
	t.Helper()
	var got struct {
		record
		EncScheme   string `json:"enc_scheme"`
		Fingerprint []byte `json:"device_keyfp_b64"`
		DataKey     []byte `json:"enc_data_key_b64"`
		PrivateKey  []byte `json:"enc_privkey_b64"`
		Nonce       []byte `json:"privkey_nonce_b64"`
		Tag         []byte `json:"privkey_tag_b64"`
	}
	d.do("GET", fmt.Sprintf("/apiv1/devices/self/certificates/%d", cert), nil, 200).data(t, &got)
	public, secret := array(d.key.PublicKey()), [32]byte(d.key.Bytes())
	if fingerprint := seal.Fingerprint(public); string(fingerprint[:]) != string(got.Fingerprint) {
		t.Errorf("fingerprint %s", base64.StdEncoding.EncodeToString(got.Fingerprint))
	}
	dataKey, err := seal.OpenSealedBox(public, secret, got.DataKey)
	if err != nil {
		t.Fatal(err)
	}
	der, err := seal.DecryptPrivateKey(dataKey, seal.EncryptedKey{Ciphertext: got.PrivateKey, Nonce: got.Nonce, Tag: got.Tag})
	if err != nil {
		t.Fatal(err)
	}
	key := "-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString(der) + "\n-----END PRIVATE KEY-----\n"
	pair, err := tls.X509KeyPair([]byte(got.Cert), []byte(key))
	if err != nil {
		t.Fatalf("certificate and key do not fit: %v", err)
	}
	if serial := fmt.Sprintf("%x", pair.Leaf.SerialNumber); !strings.EqualFold(strings.TrimLeft(got.SerialNumber, "0"), serial) {
		t.Errorf("serial_number %s of %s", got.SerialNumber, serial)
	}
	return got.SerialNumber
}

func array(key *ecdh.PublicKey) [32]byte { return [32]byte(key.Bytes()) }

// Fifty triggers at once place one order.
func TestFiftyTriggersOneOrder(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := startWithCA(t, db, acmetest.Options{})
		me := p.person("me@example.org")
		cert := me.certificate(me.account(pebble), "fifty.example.test")
		path := fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert)
		var group sync.WaitGroup
		var mu sync.Mutex
		started := map[int64]int{}
		for range 50 {
			group.Go(func() {
				a := me.try("POST", path, nil)
				var i issue
				if a.status != 200 && a.status != 201 {
					t.Errorf("%d %s", a.status, a.body)
					return
				}
				a.data(t, &i)
				mu.Lock()
				defer mu.Unlock()
				started[i.ID]++
			})
		}
		group.Wait()
		if len(started) != 1 {
			t.Errorf("%d attempts were started: %v", len(started), started)
		}
		var history []issue
		eventually(t, 30*time.Second, "the issuance ends", func() bool {
			me.do("GET", path+"/history", nil, 200).data(t, &history)
			return history[0].Status == "SUCCESS"
		})
		if len(history) != 1 {
			t.Errorf("history has %d rows", len(history))
		}
	})
}
