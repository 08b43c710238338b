package apptest

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

const HookSecret = "canary-webhook-secret-91d2"

// Receiver is a webhook receiver that verifies signatures as api.md says.
type Receiver struct {
	*httptest.Server
	mu     sync.Mutex
	Bodies []map[string]any
	ids    map[string]int
}

func NewReceiver(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{ids: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		mac := hmac.New(sha256.New, []byte(HookSecret))
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
		r.Bodies = append(r.Bodies, event)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Bodies)
}

// StartWithCA runs the program where Pebble looks for HTTP-01 answers.
func StartWithCA(t *testing.T, db sqldb.Config, o acmetest.Options) (*Program, *acmetest.Server) {
	t.Helper()
	pebble := acmetest.Start(t, o)
	return Start(t, Settings(t, db), app.Options{}, pebble.HTTPListener), pebble
}

// Account makes an ACME account at Pebble.
func (c *Caller) Account(pebble *acmetest.Server) int64 {
	c.P.T.Helper()
	var account struct{ ID int64 }
	c.Do("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": "pebble", "email": "ops@example.org", "provider": "custom", "directory_url": pebble.DirectoryURL, "ca_bundle_pem": pebble.CABundlePEM,
	}, 201).Data(c.P.T, &account)
	return account.ID
}

type Record struct {
	ID           int64
	SerialNumber string `json:"serial_number"`
	Status       string
	Cert         string
}

type Issue struct {
	ID           int64
	Status       string
	Trigger      string
	OrderURL     string `json:"order_url"`
	ErrorMessage string `json:"error_message"`
	Log          []struct{ Step, Message string }
}

// Certificate makes a record.
func (c *Caller) Certificate(account int64, names ...string) int64 {
	c.P.T.Helper()
	var made Record
	c.Do("POST", "/apiv1/me/certificates", map[string]any{
		"action": "create", "acct_id": account, "domain_name": names[0], "sans": names[1:], "key_algorithm": "ECDSA", "policy": "HYBRID",
	}, 201).Data(c.P.T, &made)
	return made.ID
}

// Issue starts an issuance and waits for its end.
func (c *Caller) Issue(cert int64) Issue {
	c.P.T.Helper()
	var started Issue
	path := fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert)
	c.Do("POST", path, nil, 201).Data(c.P.T, &started)
	var now Issue
	Eventually(c.P.T, 2*time.Minute, "the issuance ends", func() bool {
		c.Do("GET", fmt.Sprintf("%s/%d", path, started.ID), nil, 200).Data(c.P.T, &now)
		return now.Status != "PENDING" && now.Status != "PROCESSING"
	})
	return now
}

type Updates struct {
	Cursor  string
	Signals []struct {
		Type string
		TSMS int64 `json:"ts_ms"`
		Ref  map[string]any
	}
}

// Install fetches the certificate and its key, checks that they fit, and
// returns the serial number.
func (d *Device) Install(t *testing.T, cert int64) string {
	t.Helper()
	var got struct {
		Record
		EncScheme   string `json:"enc_scheme"`
		Fingerprint []byte `json:"device_keyfp_b64"`
		DataKey     []byte `json:"enc_data_key_b64"`
		PrivateKey  []byte `json:"enc_privkey_b64"`
		Nonce       []byte `json:"privkey_nonce_b64"`
		Tag         []byte `json:"privkey_tag_b64"`
	}
	d.Do("GET", fmt.Sprintf("/apiv1/devices/self/certificates/%d", cert), nil, 200).Data(t, &got)
	public, secret := array(d.Key.PublicKey()), [32]byte(d.Key.Bytes())
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
