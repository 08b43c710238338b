package threats_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// An API key that may register devices, and nothing else, takes a device over
// with a key of its own: it gets no private key, the device goes on, and the
// owner is told. After the owner's confirmation the new key is served.
func TestRegisteringKeyGetsNoPrivateKey(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		alice := p.Person("alice@example.org")
		device := alice.Enrol(apptest.PublicID(7))
		r := &apptest.Resident{Caller: alice, Ids: map[string]string{"device_id": strconv.FormatInt(device.ID, 10)}}
		plain, sealed := r.Openly(), strconv.FormatInt(alice.Imported(), 10)
		at := "/apiv1/me/devices/" + r.Ids["device_id"]
		id, _ := strconv.ParseInt(sealed, 10, 64)
		alice.Do("POST", at+"/certificates", map[string]any{"cert_id": id}, 204)
		materials := func(c *apptest.Caller, cert string, want int) (m struct {
			KeyFP string `json:"device_keyfp_b64"`
		}) {
			t.Helper()
			a := c.Do("GET", "/apiv1/devices/self/certificates/"+cert+"/deploy-materials", nil, want)
			if want == 200 {
				a.Data(t, &m)
			} else if !bytes.Contains(a.Body, []byte("WRAP_PENDING")) {
				t.Errorf("%s", a.Body)
			}
			return m
		}
		own := materials(device.Caller, sealed, 200).KeyFP

		registrar := p.Bearer(r.Key(apptest.Permitting(apptest.Permission("ForDeviceAuthenticate", "*", "authenticate"))))
		var taken struct {
			Device struct {
				ID        int64
				KeyStatus string `json:"key_status"`
			}
			Session struct {
				AccessToken string `json:"access_token"`
			}
		}
		registrar.Do("POST", "/apiv1/me/devices", map[string]any{"device_public_id": device.PublicID, "dev_pk": apptest.SomePublicKey, "name": "thief"}, 200).Data(t, &taken)
		if taken.Device.ID != device.ID || taken.Device.KeyStatus != "PENDING" {
			t.Errorf("registered %+v", taken)
		}
		thief := p.Bearer(taken.Session.AccessToken)
		for _, cert := range []string{sealed, plain} {
			materials(thief, cert, 409)
			record := thief.Do("GET", "/apiv1/devices/self/certificates/"+cert, nil, 200)
			if bytes.Contains(record.Body, []byte("private_key_der_b64")) || bytes.Contains(record.Body, []byte("enc_privkey_b64")) {
				t.Errorf("the record has the key: %s", record.Body)
			}
		}
		if fp := materials(device.Caller, sealed, 200).KeyFP; fp != own {
			t.Errorf("sealed to %s, was %s", fp, own)
		}
		materials(device.Caller, plain, 200)
		apptest.Eventually(t, time.Minute, "the owner is told", func() bool {
			mails, _ := filepath.Glob(filepath.Join(p.Config.Data, "outbox", "*.eml"))
			for _, name := range mails {
				if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), "A device came with another key") {
					return true
				}
			}
			return false
		})

		fp := apptest.NamedKey(nil)
		alice.Do("POST", at+"/confirm-key", fp, 200)
		if got := materials(thief, sealed, 200).KeyFP; got != fp.(map[string]any)["device_keyfp_b64"] {
			t.Errorf("sealed to %s after the confirmation", got)
		}
		materials(thief, plain, 200)
		device.Do("GET", "/apiv1/devices/self/install-config", nil, 401)
	})
}
