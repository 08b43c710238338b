package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// An API key that may register devices, and nothing else, takes a device over
// with a key of its own: it gets no private key, the device goes on, and the
// owner is told. After the owner's confirmation the new key is served.
func TestRegisteringKeyGetsNoPrivateKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		alice := p.person("alice@example.org")
		device := alice.enrol(publicID(7))
		r := &resident{caller: alice, ids: map[string]string{"device_id": strconv.FormatInt(device.ID, 10)}}
		plain, sealed := r.openly(), strconv.FormatInt(alice.imported(), 10)
		at := "/apiv1/me/devices/" + r.ids["device_id"]
		id, _ := strconv.ParseInt(sealed, 10, 64)
		alice.do("POST", at+"/certificates", map[string]any{"cert_id": id}, 204)
		materials := func(c *caller, cert string, want int) (m struct {
			KeyFP string `json:"device_keyfp_b64"`
		}) {
			t.Helper()
			a := c.do("GET", "/apiv1/devices/self/certificates/"+cert+"/deploy-materials", nil, want)
			if want == 200 {
				a.data(t, &m)
			} else if !bytes.Contains(a.body, []byte("WRAP_PENDING")) {
				t.Errorf("%s", a.body)
			}
			return m
		}
		own := materials(device.caller, sealed, 200).KeyFP

		registrar := p.bearer(r.key(permitting(permission("ForDeviceAuthenticate", "*", "authenticate"))))
		var taken struct {
			Device struct {
				ID        int64
				KeyStatus string `json:"key_status"`
			}
			Session struct {
				AccessToken string `json:"access_token"`
			}
		}
		registrar.do("POST", "/apiv1/me/devices", map[string]any{"device_public_id": device.PublicID, "dev_pk": somePublicKey, "name": "thief"}, 200).data(t, &taken)
		if taken.Device.ID != device.ID || taken.Device.KeyStatus != "PENDING" {
			t.Errorf("registered %+v", taken)
		}
		thief := p.bearer(taken.Session.AccessToken)
		for _, cert := range []string{sealed, plain} {
			materials(thief, cert, 409)
			record := thief.do("GET", "/apiv1/devices/self/certificates/"+cert, nil, 200)
			if bytes.Contains(record.body, []byte("private_key_der_b64")) || bytes.Contains(record.body, []byte("enc_privkey_b64")) {
				t.Errorf("the record has the key: %s", record.body)
			}
		}
		if fp := materials(device.caller, sealed, 200).KeyFP; fp != own {
			t.Errorf("sealed to %s, was %s", fp, own)
		}
		materials(device.caller, plain, 200)
		eventually(t, time.Minute, "the owner is told", func() bool {
			mails, _ := filepath.Glob(filepath.Join(p.config.Data, "outbox", "*.eml"))
			for _, name := range mails {
				if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), "A device came with another key") {
					return true
				}
			}
			return false
		})

		fp := namedKey(nil)
		alice.do("POST", at+"/confirm-key", fp, 200)
		if got := materials(thief, sealed, 200).KeyFP; got != fp.(map[string]any)["device_keyfp_b64"] {
			t.Errorf("sealed to %s after the confirmation", got)
		}
		materials(thief, plain, 200)
		device.do("GET", "/apiv1/devices/self/install-config", nil, 401)
	})
}

// waitingKey has an API key bring another key of a new device.
func waitingKey(a *attempt) {
	id := freshPublicID()
	a.ids["device_id"] = strconv.FormatInt(a.r.enrol(id).ID, 10)
	registrar := a.r.key(permitting(permission("ForDeviceAuthenticate", "*", "authenticate")))
	a.w.bearer(registrar).do("POST", "/apiv1/me/devices", map[string]any{"device_public_id": id, "dev_pk": somePublicKey}, 200)
}

// namedKey names somePublicKey.
func namedKey(*resident) any {
	return map[string]any{"device_keyfp_b64": "+JXg9p9JRv5nK/9+u0d/McJ38fgZdGEnbrkNt3SHhHY="}
}
