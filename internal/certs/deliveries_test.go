package certs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"certharbor.dev/certharbor/internal/seal"
)

func (e *env) assign(deviceID, certID int64) *response {
	e.t.Helper()
	return e.call(alice, fmt.Sprintf("POST /me/devices/%d/certificates", deviceID), fmt.Sprintf(`{"cert_id":%d}`, certID))
}

func (e *env) materials(deviceID, certID int64) *response {
	e.t.Helper()
	return e.call(deviceToken(deviceID), fmt.Sprintf("GET /devices/self/certificates/%d/deploy-materials", certID), "")
}

func (e *env) policy(certID int64, policy string) *response {
	e.t.Helper()
	return e.call(alice, fmt.Sprintf("PUT /me/certificates/%d", certID), `{"action":"update","policy":"`+policy+`"}`)
}

func fingerprint(e *env, deviceID int64) string {
	sum := seal.Fingerprint([32]byte(e.devices[deviceID].PublicKey().Bytes()))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// open does what an agent does with the AEAD form: it checks the fingerprint,
// opens the box with the device's secret key and decrypts the private key.
func (w *response) open(e *env, deviceID int64) []byte {
	e.t.Helper()
	var m DeployMaterials
	if err := json.Unmarshal(w.body.Data, &m); err != nil || w.Code != http.StatusOK {
		e.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if m.EncScheme != "aes256gcm" || m.WrapAlg != "x25519" || m.DeviceKeyFP != fingerprint(e, deviceID) || m.PrivateKeyDERB64 != "" {
		e.t.Errorf("materials %+v", m)
	}
	raw := func(text string) []byte {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			e.t.Fatal(err)
		}
		return b
	}
	key := e.devices[deviceID]
	dataKey, err := seal.OpenSealedBox([32]byte(key.PublicKey().Bytes()), [32]byte(key.Bytes()), raw(m.EncDataKey))
	if err != nil {
		e.t.Fatal(err)
	}
	der, err := seal.DecryptPrivateKey(dataKey, seal.EncryptedKey{Ciphertext: raw(m.EncPrivateKey), Nonce: raw(m.PrivateKeyNonce), Tag: raw(m.PrivateKeyTag)})
	if err != nil {
		e.t.Fatal(err)
	}
	return der
}

func updated(e *env, c Certificate, deviceID int64, wrapped bool) string {
	text := fmt.Sprintf(`cert.updated {"cert_id":%d`, c.ID)
	if c.SerialNumber != "" {
		text += `,"serial":"` + c.SerialNumber + `"`
	}
	if wrapped {
		text += `,"wrap_ready":true,"wrap_alg":"x25519","device_keyfp_b64":"` + fingerprint(e, deviceID) + `"`
	}
	return text + "}"
}

func (e *env) wantSignals(deviceID int64, want ...string) {
	e.t.Helper()
	if got := e.signals(deviceID); strings.Join(got, "\n") != strings.Join(want, "\n") {
		e.t.Errorf("device %d got\n%s\nwant\n%s", deviceID, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (e *env) record(id int64) Certificate {
	e.t.Helper()
	return e.call(alice, fmt.Sprintf("GET /me/certificates/%d", id), "").record(e.t)
}
