package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestLifeOfAKey is the way of wire.md 7.4 under HYBRID.
func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		e.materials(device1, c.ID).want(t, http.StatusNotFound, fault.CodeNotFound)
		e.assign(device1, c.ID).want(t, http.StatusNoContent, 0)
		e.wantSignals(device1) // there is nothing to fetch
		for _, path := range []string{"", "/deploy-materials", "/bundle"} {
			w := e.call(deviceToken(device1), fmt.Sprintf("GET /devices/self/certificates/%d%s", c.ID, path), "").want(t, http.StatusConflict, fault.CodeNotIssued)
			if w.body.Error.Key != "NOT_ISSUED" || strings.Contains(w.Body.String(), "WRAP_PENDING") {
				t.Errorf("%s", w.Body)
			}
		}

		key := e.issue(c.ID)
		c = e.record(c.ID)
		if c.Status != StatusActive || !c.Verified || c.NextRenewalAt <= c.NotBefore || c.NextRenewalAt >= c.NotAfter || len(c.SerialNumber) < 10 {
			t.Errorf("after the issue %+v", c)
		}
		e.wantSignals(device1, updated(e, c, device1, true))
		if got := e.materials(device1, c.ID).open(e, device1); !bytes.Equal(got, key) {
			t.Error("the device gets another key")
		}
		e.wantSignals(device2)

		renewed := e.issue(c.ID)
		again := e.record(c.ID)
		e.wantSignals(device1, updated(e, again, device1, true))
		if got := e.materials(device1, c.ID).open(e, device1); !bytes.Equal(got, renewed) || bytes.Equal(got, key) {
			t.Error("the device gets another key than the renewed one")
		}
		if again.SerialNumber == c.SerialNumber {
			t.Error("the serial number stays")
		}

		e.assign(device2, c.ID).want(t, http.StatusNoContent, 0)
		e.assign(device2, c.ID).want(t, http.StatusNoContent, 0)
		e.wantSignals(device2, updated(e, again, device2, true))
		e.wantSignals(device1)
		if got := e.materials(device2, c.ID).open(e, device2); !bytes.Equal(got, renewed) {
			t.Error("the second device gets another key")
		}
		list := e.call(alice, fmt.Sprintf("GET /me/devices/%d/certificates", device2), "").want(t, http.StatusOK, 0)
		if list.body.Meta == nil || list.body.Meta.Total != 1 || !strings.Contains(string(list.body.Data), again.SerialNumber) {
			t.Errorf("list of the device: %s", list.Body)
		}

		gone := fmt.Sprintf("DELETE /me/devices/%d/certificates/%d", device1, c.ID)
		e.call(alice, gone, "").want(t, http.StatusNoContent, 0)
		e.call(alice, gone, "").want(t, http.StatusNotFound, fault.CodeNotFound)
		e.wantSignals(device1, fmt.Sprintf(`cert.unassigned {"cert_id":%d}`, c.ID))
		e.materials(device1, c.ID).want(t, http.StatusNotFound, fault.CodeNotFound)

		e.call(alice, fmt.Sprintf("DELETE /me/certificates/%d", c.ID), "").want(t, http.StatusNoContent, 0)
		e.wantSignals(device2, fmt.Sprintf(`cert.unassigned {"cert_id":%d}`, c.ID))
		for _, table := range []string{"certificates", "certificate_materials", "certificate_assignments", "certificate_wraps"} {
			if n := e.count("SELECT COUNT(*) FROM " + table); n != 0 {
				t.Errorf("%d rows left in %s", n, table)
			}
		}
	})
}

// TestSelfRecord: wire.md 7.3 and pack=download.
func TestSelfRecord(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	c := e.create("")
	e.assign(device1, c.ID)
	key := e.issue(c.ID)
	self := fmt.Sprintf("GET /devices/self/certificates/%d", c.ID)
	w := e.call(deviceToken(device1), self, "").want(t, http.StatusOK, 0)
	if got := w.open(e, device1); !bytes.Equal(got, key) {
		t.Error("the union delivers another key")
	}
	record := w.record(t)
	chain, err := ParseChain([]byte(record.Cert))
	parsed, errKey := ParseKey(key)
	if err != nil || errKey != nil || !SameKey(chain.Leaf.PublicKey, parsed.Public()) {
		t.Errorf("the leaf does not match the delivered key: %v", err)
	}
	for path, disposition := range map[string]string{
		"/bundle?pack=download": fmt.Sprintf(`attachment; filename="cert_%d_bundle.json"`, c.ID), "/bundle": "", "/deploy-materials?pack=x": "",
	} {
		if w := e.call(deviceToken(device1), self+path, "").want(t, 200, 0); w.Header().Get("Content-Disposition") != disposition {
			t.Errorf("%s: %q", path, w.Header().Get("Content-Disposition"))
		}
	}
	byOwner := e.call(alice, fmt.Sprintf("GET /me/devices/%d/certificates/%d/bundle?pack=download", device1, c.ID), "")
	if got := byOwner.open(e, device1); !bytes.Equal(got, key) || byOwner.Header().Get("Content-Disposition") == "" {
		t.Error("the owner's bundle differs")
	}
}

// TestCustodyTable goes through the table of wire.md 7.4.
func TestCustodyTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		for _, test := range []struct {
			policy   string
			flag     bool
			early    int // status for a device that is assigned before the issue
			late     int // and for one that is assigned after it
			assigned int // status of the late assignment
			key      bool
		}{
			{"HYBRID", false, 200, 200, 204, true},
			{"HYBRID", true, 200, 200, 204, true},
			{"DEVICE_REQUIRED", false, 200, 409, 200, false},
			{"DEVICE_REQUIRED", true, 200, 409, 200, false},
			{"MASTER_ONLY", true, 200, 200, 204, true},
			{"MASTER_ONLY", false, 403, 403, 204, true},
		} {
			name := fmt.Sprintf("%s %v", test.policy, test.flag)
			c := e.create(fmt.Sprintf(`,"policy":%q,"server_decrypt_export":%v`, test.policy, test.flag))
			e.assign(device1, c.ID).want(t, http.StatusNoContent, 0)
			key := e.issue(c.ID)
			if w := e.assign(device2, c.ID); w.Code != test.assigned || test.assigned == 200 && string(w.body.Data) != `{"wrap_ready":false}` {
				t.Errorf("%s: late assignment %d %s", name, w.Code, w.Body)
			}
			c = e.record(c.ID)
			sealed := test.policy != "MASTER_ONLY"
			for device, status := range map[int64]int{device1: test.early, device2: test.late} {
				if status == http.StatusOK {
					e.wantSignals(device, updated(e, c, device, sealed))
				} else {
					e.wantSignals(device)
				}
			}
			for device, status := range map[int64]int{device1: test.early, device2: test.late} {
				w := e.materials(device, c.ID)
				if w.Code != status {
					t.Errorf("%s: device %d gets %d %s", name, device, w.Code, w.Body)
				}
				self := e.call(deviceToken(device), fmt.Sprintf("GET /devices/self/certificates/%d", c.ID), "").want(t, 200, 0)
				if !strings.Contains(self.Body.String(), `"cert":"-----BEGIN CERTIFICATE`) {
					t.Errorf("%s: no certificate for device %d", name, device)
				}
				if status != 200 && (strings.Contains(self.Body.String(), "privkey") || strings.Contains(self.Body.String(), "private_key")) {
					t.Errorf("%s: what is refused stands in the union: %s", name, self.Body)
				}
				switch {
				case status == 409 && (w.body.Error.Key != "WRAP_PENDING" || w.body.Error.Code != int(fault.CodeWrapPending)):
					t.Errorf("%s: %s", name, w.Body)
				case status == 403 && w.body.Error.Key != "EXPORT_FORBIDDEN":
					t.Errorf("%s: %s", name, w.Body)
				case status == 200 && sealed && !bytes.Equal(w.open(e, device), key):
					t.Errorf("%s: another key", name)
				case status == 200 && !sealed:
					var m DeployMaterials
					if err := json.Unmarshal(w.body.Data, &m); err != nil || m.EncScheme != "plaintext" || m.EncDataKey != "" ||
						m.PrivateKeyDERB64 != base64.StdEncoding.EncodeToString(key) || m.CertificatePEM != c.Cert {
						t.Errorf("%s: %s", name, w.Body)
					}
				}
			}
			export := e.call(alice, fmt.Sprintf("GET /me/certificates/%d/export?format=pem", c.ID), "").want(t, 200, 0)
			if strings.Contains(export.Body.String(), "PRIVATE KEY") != test.key {
				t.Errorf("%s: export %s", name, export.Body)
			}
			serverWraps := e.count("SELECT COUNT(*) FROM certificate_materials WHERE cert_id = $1 AND data_key IS NOT NULL", c.ID)
			if (serverWraps == 1) != (test.policy != "DEVICE_REQUIRED") {
				t.Errorf("%s: %d wraps for the server", name, serverWraps)
			}
		}
		plain := e.count("SELECT COUNT(*) FROM audit_log WHERE action = 'certificate.deliver_plaintext' AND actor = $1", fmt.Sprintf("device %d", device1))
		if plain != 2 {
			t.Errorf("%d plaintext deliveries in the log", plain)
		}
	})
}

// TestPolicyChange: decisions.md 7.9.
func TestPolicyChange(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create(`,"policy":"MASTER_ONLY"`)
		e.assign(device1, c.ID)
		key := e.issue(c.ID)
		e.signals(device1)

		e.policy(c.ID, "HYBRID").want(t, 200, 0)
		c = e.record(c.ID)
		e.wantSignals(device1, updated(e, c, device1, true))
		if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), key) {
			t.Error("HYBRID: another key")
		}
		e.policy(c.ID, "MASTER_ONLY").want(t, 200, 0)
		e.wantSignals(device1)
		e.materials(device1, c.ID).want(t, 403, fault.CodeExportForbidden)

		e.policy(c.ID, "DEVICE_REQUIRED").want(t, 200, 0)
		e.wantSignals(device1, updated(e, c, device1, true))
		if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), key) {
			t.Error("DEVICE_REQUIRED: another key")
		}
		for _, back := range []string{"HYBRID", "MASTER_ONLY"} {
			e.policy(c.ID, back).want(t, 409, fault.CodeConflict)
		}
		e.policy(c.ID, "NOBODY").want(t, 400, fault.CodeInvalid)
		e.policy(c.ID, "DEVICE_REQUIRED").want(t, 200, 0)
		e.wantSignals(device1)

		e.call(alice, fmt.Sprintf("PUT /me/certificates/%d", c.ID), `{"action":"rekey","policy":"HYBRID"}`).want(t, 200, 0)
		if c := e.record(c.ID); c.Policy != PolicyDeviceRequired || len(e.issuer.started) != 1 {
			t.Errorf("before the new key: %s, started %v", c.Policy, e.issuer.started)
		}
		key = e.issue(c.ID)
		if c = e.record(c.ID); c.Policy != PolicyHybrid || c.KeyDistPolicy != PolicyHybrid {
			t.Errorf("with the new key: %s", c.Policy)
		}
		if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), key) {
			t.Error("after the way back: another key")
		}
		e.policy(c.ID, "MASTER_ONLY").want(t, 200, 0)
	})
}

// changeKey does what a registration with another dev_pk does.
func (e *env) changeKey(deviceID int64, public []byte) error {
	ctx := context.Background()
	return e.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE devices SET public_key = $1 WHERE id = $2", public, deviceID); err != nil {
			return err
		}
		return e.s.DeviceKeyChanged(ctx, tx, devices.Device{ID: deviceID, UserID: alice, PublicKey: [32]byte(public)})
	})
}

func TestDeviceKeyChanged(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		hybrid, sealed, unissued := e.create(""), e.create(`,"policy":"DEVICE_REQUIRED"`), e.create("")
		for _, c := range []Certificate{hybrid, sealed, unissued} {
			e.assign(device1, c.ID)
			e.assign(device2, c.ID)
		}
		key, keyOfSealed := e.issue(hybrid.ID), e.issue(sealed.ID)
		e.signals(device1)
		e.signals(device2)

		e.devices[device1] = newDeviceKey(t)
		if err := e.changeKey(device1, e.devices[device1].PublicKey().Bytes()); err != nil {
			t.Fatal(err)
		}
		hybrid = e.record(hybrid.ID)
		e.wantSignals(device1, updated(e, hybrid, device1, true))
		e.wantSignals(device2)
		if !bytes.Equal(e.materials(device1, hybrid.ID).open(e, device1), key) {
			t.Error("another key after the change")
		}
		e.materials(device1, sealed.ID).want(t, 409, fault.CodeWrapPending)
		if !bytes.Equal(e.materials(device2, sealed.ID).open(e, device2), keyOfSealed) {
			t.Error("the other device lost its wrap")
		}
		keyOfSealed = e.issue(sealed.ID)
		if !bytes.Equal(e.materials(device1, sealed.ID).open(e, device1), keyOfSealed) {
			t.Error("still pending after the re-issue")
		}
	})
}

// TestSecretsAreSealed looks for the private key and the data key in every cell.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	c := e.create("")
	e.assign(device1, c.ID)
	key := e.issue(c.ID)
	m, err := materials(t.Context(), e.db.Reader(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	dataKey, err := e.s.openDataKey(&m)
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range [][]byte{m.KeyCiphertext, m.KeyTag, m.DataKey, []byte(m.ChainPem)} {
		if bytes.Contains(cell, key[40:72]) || bytes.Contains(cell, dataKey) {
			t.Error("a secret stands in the clear")
		}
	}
	other := e.create("")
	e.exec("UPDATE certificate_materials SET key_ciphertext = $1, key_nonce = $2, key_tag = $3, data_key = $4, chain_pem = $5 WHERE cert_id = $6",
		m.KeyCiphertext, m.KeyNonce, m.KeyTag, m.DataKey, m.ChainPem, other.ID)
	if moved, err := materials(t.Context(), e.db.Reader(), other.ID); err != nil {
		t.Fatal(err)
	} else if _, err := e.s.openKey(&moved); err == nil {
		t.Error("a key opens in another row")
	}
}
