package certs

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestExportAnswer: wire.md section 9 and the log of exports.
func TestExportAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		path := fmt.Sprintf("GET /me/certificates/%d/export", c.ID)
		e.call(alice, path+"?format=zip", "").want(t, 409, fault.CodeNotIssued)
		key := e.issue(c.ID)
		w := e.call(alice, path+"?format=zip", "").want(t, 200, 0)
		password := w.Header().Get("X-Export-Password")
		for name, want := range map[string]string{
			"Content-Type": "application/zip", "Content-Disposition": fmt.Sprintf(`attachment; filename="cert-%d.zip"`, c.ID),
			"Cache-Control": "no-store", "Content-Length": strconv.Itoa(w.Body.Len()),
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
		if !passwordForm.MatchString(password) || bytes.Contains(w.Body.Bytes(), []byte(password)) {
			t.Errorf("password %q", password)
		}
		archive, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
		if err != nil || len(archive.File) != 6 {
			t.Fatalf("archive: %v", err)
		}
		for format, kind := range map[string]string{"": "zip", "pem": "x-pem-file", "pfx": "pkcs12", "jks": "java-keystore", "der": "pkix-cert"} {
			w := e.call(alice, path+"?format="+format, "").want(t, 200, 0)
			if !strings.Contains(w.Header().Get("Content-Type"), kind) {
				t.Errorf("%s: %s", format, w.Header().Get("Content-Type"))
			}
			if again := w.Header().Get("X-Export-Password"); again == password || (again == "") != (format == "pem" || format == "der") {
				t.Errorf("%s: password %q", format, again)
			}
			if format == "pem" && !bytes.HasPrefix(w.Body.Bytes(), KeyPEM(key)) {
				t.Error("pem: another key")
			}
		}
		e.call(alice, path+"?format=exe", "").want(t, 400, fault.CodeInvalid)
		stale := e.call(staleUser(alice), path, "").want(t, 403, fault.CodeStepUpRequired)
		if stale.body.Error.Key != "STEP_UP_REQUIRED" {
			t.Errorf("%s", stale.Body)
		}
		e.call(staleUser(alice), path+"?format=der", "").want(t, 200, 0)
		logged := e.count("SELECT COUNT(*) FROM audit_log WHERE action = 'certificate.export' AND object = $1 AND actor = 'session 5'", object(c.ID))
		if logged != 7 {
			t.Errorf("%d exports in the log", logged)
		}
		if n := e.count("SELECT COUNT(*) FROM audit_log WHERE detail LIKE $1", "%"+password+"%"); n != 0 {
			t.Error("the password stands in the log")
		}
	})
}

// TestCertificateAssign: threats.md scenario 2.
func TestCertificateAssign(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c, other := e.create(""), e.create("")
		key := e.issue(c.ID)
		foreign := e.call(bob, "POST /me/certificates", `{"domain_name":"b.example","acct_id":12}`).record(t)
		body := func(id string) string { return `{"device_public_id":"` + id + `","future":{"x":1}}` }
		assign := func(key, id string) *response { return e.call(key, "POST /me/certificate-assign", body(id)) }
		good := e.grant("ak_good", scope, c.ID, "read")
		e.grant("ak_two", scope, c.ID, "read")
		for _, test := range []struct {
			name, key, device string
			status            int
			code              fault.Code
		}{
			{"star", e.grant("ak_star", scope, "*", "read"), publicID1, 403, fault.CodeForbidden},
			{"two", e.grant("ak_two", scope, other.ID, "read"), publicID1, 400, fault.CodeInvalid},
			{"issue only", e.grant("ak_issue", scope, c.ID, "issue"), publicID1, 403, fault.CodeForbidden},
			{"another scope", e.grant("ak_devices", "devices", c.ID, "read"), publicID1, 403, fault.CodeForbidden},
			{"foreign certificate", e.grant("ak_foreign", scope, foreign.ID, "read"), publicID1, 404, fault.CodeNotFound},
			{"absent certificate", e.grant("ak_absent", scope, 99999, "read"), publicID1, 404, fault.CodeNotFound},
			{"foreign device", good, fmt.Sprintf(publicID, bobsDevice), 404, fault.CodeNotFound},
			{"absent device", good, fmt.Sprintf(publicID, 99), 404, fault.CodeNotFound},
			{"malformed device", good, "21", 400, fault.CodeInvalid},
			{"no device", good, "", 400, fault.CodeInvalid},
		} {
			t.Run(test.name, func(t *testing.T) { assign(test.key, test.device).want(t, test.status, test.code) })
		}
		e.call(alice, "POST /me/certificate-assign", body(publicID1)).want(t, 401, fault.CodeUnauthorized)
		e.call(good, "POST /users/2/certificate-assign", body(publicID1)).want(t, 403, fault.CodeForbidden)
		e.call(good, "POST /me/certificate-assign", `{"device_public_id":21}`).want(t, 400, fault.CodeInvalid)
		e.revoked.Store(true)
		assign(good, publicID1).want(t, 401, fault.CodeUnauthorized)
		e.revoked.Store(false)
		if n := e.count("SELECT COUNT(*) FROM certificate_assignments") + e.count("SELECT COUNT(*) FROM certificate_wraps"); n != 0 {
			t.Errorf("%d rows after refusals", n)
		}
		if n := e.count("SELECT COUNT(*) FROM audit_log WHERE action = 'certificate.assign'"); n != 0 {
			t.Errorf("%d refused assignments in the log", n)
		}
		e.wantSignals(device1)

		assign(good, strings.ToUpper(publicID1)).want(t, http.StatusNoContent, 0)
		assign(good, publicID1).want(t, http.StatusNoContent, 0)
		e.wantSignals(device1, updated(e, e.record(c.ID), device1, true))
		if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), key) {
			t.Error("another key")
		}
		twice := e.grant("ak_twice", scope, c.ID, "read") // the same certificate in two entries is one
		e.grant("ak_twice", scope, c.ID, "read", "issue")
		assign(twice, publicID2).want(t, http.StatusNoContent, 0)
	})
}

// TestUnconfirmedCommits: every commit succeeds and the caller sees a time-out;
// trying again leads to the same state.
func TestUnconfirmedCommits(t *testing.T) {
	t.Parallel()
	configs := map[string]func(testing.TB) sqldb.Config{"sqlite": dbtest.SQLiteConfig, "postgres": dbtest.PostgresConfig}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var faulty atomic.Bool
			with := config(t)
			with.CommitFault = faulty.Load
			e := newEnv(t, dbtest.Open(t, with))
			c := e.create("")
			key := e.issue(c.ID)
			path := fmt.Sprintf("/me/devices/%d/certificates", device1)
			for _, step := range []struct{ line, body string }{
				{"POST " + path, fmt.Sprintf(`{"cert_id":%d}`, c.ID)},
				{fmt.Sprintf("PUT /me/certificates/%d", c.ID), `{"policy":"DEVICE_REQUIRED"}`},
			} {
				faulty.Store(true)
				e.call(alice, step.line, step.body).want(t, 503, fault.CodeUnavailable)
				faulty.Store(false)
				if w := e.call(alice, step.line, step.body); w.Code >= 300 {
					t.Errorf("%s again: %d %s", step.line, w.Code, w.Body)
				}
				if got := e.signals(device1); len(got) != 1 || got[0] != updated(e, e.record(c.ID), device1, true) {
					t.Errorf("%s: signals %v", step.line, got)
				}
				if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), key) {
					t.Errorf("%s: another key", step.line)
				}
			}
			faulty.Store(true)
			e.call(alice, fmt.Sprintf("GET /me/certificates/%d/export", c.ID), "").want(t, 503, fault.CodeUnavailable)
			e.call(alice, fmt.Sprintf("DELETE /me/certificates/%d", c.ID), "").want(t, 503, fault.CodeUnavailable)
			faulty.Store(false)
			e.call(alice, fmt.Sprintf("DELETE /me/certificates/%d", c.ID), "").want(t, 404, fault.CodeNotFound)
			e.wantSignals(device1, fmt.Sprintf(`cert.unassigned {"cert_id":%d}`, c.ID))
		})
	}
}

// TestRacesEndWrapped: whatever order issues, assignments, policy changes and a
// new device key come in, each assigned device can open the key that is stored in the end.
func TestRacesEndWrapped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		e.issue(c.ID)
		var group sync.WaitGroup
		issues := make([]Issued, 6)
		for i := range issues {
			issues[i] = e.issued(c.ID)
		}
		for _, in := range issues {
			group.Go(func() {
				err := db.InTx(context.Background(), func(tx *sqldb.Tx) error { _, err := e.s.Store(context.Background(), tx, in); return err })
				if err != nil {
					t.Error(err)
				}
			})
		}
		for _, device := range []int64{device1, device2} {
			for range 3 {
				group.Go(func() {
					if w := e.assign(device, c.ID); w.Code != http.StatusNoContent {
						t.Errorf("assign: %d %s", w.Code, w.Body)
					}
				})
			}
		}
		for _, policy := range []string{"MASTER_ONLY", "HYBRID", "MASTER_ONLY"} {
			group.Go(func() { e.policy(c.ID, policy).want(t, 200, 0) })
		}
		fresh := newDeviceKey(t)
		group.Go(func() {
			if err := e.changeKey(device1, fresh.PublicKey().Bytes()); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		e.devices[device1] = fresh
		e.policy(c.ID, "HYBRID").want(t, 200, 0)
		chain, err := ParseChain([]byte(e.record(c.ID).Cert))
		if err != nil {
			t.Fatal(err)
		}
		for _, device := range []int64{device1, device2} {
			key, err := ParseKey(e.materials(device, c.ID).open(e, device))
			if err != nil || !SameKey(key.Public(), chain.Leaf.PublicKey) {
				t.Errorf("device %d: the key is not the leaf's: %v", device, err)
			}
		}
	})
}

// TestAnswersHoldNoNull: what is promised as a string or a list is one.
func TestAnswersHoldNoNull(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	w := e.call(alice, "POST /me/certificates", `{"domain_name":"a.example","acct_id":11,"sans":null}`).want(t, 201, 0)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(w.body.Data, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		if string(value) == "null" && name != "dns_credential_id" && name != "renewal_window" && name != "last_issue" {
			t.Errorf("%s is null", name)
		}
	}
	if list := e.call(bob, "GET /me/certificates", ""); string(list.body.Data) != "[]" {
		t.Errorf("an empty list: %s", list.Body)
	}
}
