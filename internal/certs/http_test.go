package certs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
	"certharbor.dev/certharbor/internal/web"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		w := e.call(alice, "POST /users/1/certificates", `{"domain_name":"WWW.example.com.","sans":["*.example.com","WWW.EXAMPLE.COM"],"acct_id":11,
			"action":"create","key_algorithm":"ECDSA","policy":"HYBRID","organization":"Ö & <Co>","organizational_unit":"","country":"de","state":"","locality":""}`)
		c := w.want(t, http.StatusCreated, 0).record(t)
		if want := fmt.Sprintf("/apiv1/users/1/certificates/%d", c.ID); w.Header().Get("Location") != want {
			t.Errorf("Location %q", w.Header().Get("Location"))
		}
		got := e.call(alice, fmt.Sprintf("GET /me/certificates/%d", c.ID), "")
		var members map[string]any
		if err := json.Unmarshal(got.body.Data, &members); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]any{
			"domain_name": "www.example.com", "acct_id": 11.0, "user_id": 1.0, "serial_number": "", "verified": false, "self_signed": false,
			"key_dist_policy": "HYBRID", "policy": "HYBRID", "server_decrypt_export": false, "organization": "Ö & <Co>", "country": "DE",
			"cert": "", "csr": "", "orders": "", "dhparam": "", "status": "NEW", "challenge": "http-01", "auto_renew": true,
			"not_before": 0.0, "not_after": 0.0, "issuer": "", "fingerprint_sha256": "", "next_renewal_at": 0.0, "last_issue": nil,
			"dns_credential_id": nil, "renew_before_days": 0.0, "renewal_window": nil, "key_algorithm": "ECDSA", "created_at": float64(e.now.Load()),
		} {
			if got, ok := members[name]; !ok || got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if names := fmt.Sprint(members["sans"], members["fallback_acct_ids"]); names != "[*.example.com www.example.com] []" {
			t.Errorf("names %s", names)
		}
		if !bytes.Equal(got.body.Data, w.body.Data) {
			t.Errorf("POST answers\n%s\nGET answers\n%s", w.body.Data, got.body.Data)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		var ids []int64
		for range 3 {
			ids = append(ids, e.create("").ID)
		}
		e.call(bob, "POST /me/certificates", `{"domain_name":"bob.example","acct_id":12}`).want(t, http.StatusCreated, 0)
		e.issue(ids[2])
		list := func(who any, path string) ([]Certificate, int64) {
			t.Helper()
			w := e.call(who, "GET "+path, "").want(t, http.StatusOK, 0)
			var all []Certificate
			if err := json.Unmarshal(w.body.Data, &all); err != nil || w.body.Meta == nil {
				t.Fatalf("%s: %v", w.Body, err)
			}
			return all, w.body.Meta.Total
		}
		all, total := list(alice, "/me/certificates")
		if len(all) != 3 || total != 3 || all[0].ID != ids[2] || all[2].ID != ids[0] || all[0].Heavy != nil {
			t.Errorf("%d of %d: %+v", len(all), total, all)
		}
		for query, want := range map[string][2]int{"limit=2": {2, 3}, "offset=2": {1, 3}, "offset=9": {0, 3}, "limit=3": {3, 3}, "offset=1&limit=2": {2, 3}} {
			if page, total := list(alice, "/me/certificates?"+query); len(page) != want[0] || total != int64(want[1]) {
				t.Errorf("%s: %d of %d", query, len(page), total)
			}
		}
		most, _ := list(alice, "/me/certificates?detail=most")
		if most[0].Heavy == nil || !strings.HasPrefix(most[0].Cert, "-----BEGIN CERTIFICATE") || most[1].Heavy == nil {
			t.Errorf("detail=most: %+v", most[0].Heavy)
		}
		if of, total := list(alice, "/users/1/acme-accounts/11/certificates"); len(of) != 3 || total != 3 {
			t.Errorf("of the account: %d of %d", len(of), total)
		}
		e.call(alice, "GET /me/acme-accounts/12/certificates", "").want(t, http.StatusNotFound, fault.CodeNotFound)
		e.call(alice, "GET /me/certificates?limit=1001", "").want(t, http.StatusBadRequest, fault.CodeInvalid)
		if of, _ := list(bob, "/me/certificates"); len(of) != 1 || of[0].DomainName != "bob.example" {
			t.Errorf("bob sees %+v", of)
		}
		named := e.grant("ak_named", scope, ids[1], "read")
		e.grant("ak_named", scope, int64(99999), "read")
		if of, total := list(named, "/me/certificates"); len(of) != 1 || total != 1 || of[0].ID != ids[1] {
			t.Errorf("a key for one sees %d of %d", len(of), total)
		}
		if of, total := list(e.grant("ak_all", scope, "*", "read"), "/me/certificates"); len(of) != 3 || total != 3 {
			t.Errorf("a key for all sees %d of %d", len(of), total)
		}
	})
}

// TestForeignIsAbsent: threats.md scenario 1.
func TestForeignIsAbsent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		id := e.create("").ID
		e.issue(id)
		e.call(alice, fmt.Sprintf("POST /me/devices/%d/certificates", device1), fmt.Sprintf(`{"cert_id":%d}`, id)).want(t, http.StatusNoContent, 0)
		before := e.call(alice, fmt.Sprintf("GET /me/certificates/%d", id), "").Body.String()
		for _, request := range [][2]string{
			{"GET /me/certificates/%s", ""},
			{"PUT /me/certificates/%s", `{"action":"update","auto_renew":false}`},
			{"PUT /me/certificates/%s", `{"action":"revoke"}`},
			{"PUT /me/certificates/%s", `{"action":"rekey"}`},
			{"PUT /me/certificates/%s", `{"action":"verify_domain"}`},
			{"DELETE /me/certificates/%s", ""},
			{"GET /me/certificates/%s/export", ""},
			{"GET /me/devices/23/certificates/%s/bundle", ""},
			{"DELETE /me/devices/23/certificates/%s", ""},
			{"POST /me/devices/23/certificates", `{"cert_id":%s}`},
		} {
			foreign := e.call(bob, filled(request[0], strconv.FormatInt(id, 10)), filled(request[1], strconv.FormatInt(id, 10)))
			absent := e.call(bob, filled(request[0], "999999"), filled(request[1], "999999"))
			if foreign.Code != http.StatusNotFound || foreign.Body.String() != absent.Body.String() {
				t.Errorf("%s: %d %s and %s", request[0], foreign.Code, foreign.Body, absent.Body)
			}
			for _, odd := range []string{"x", "99999999999999999999", "1.5"} {
				if !strings.Contains(request[0], "%s") {
					continue
				}
				if w := e.call(bob, filled(request[0], odd), request[1]); w.Body.String() != absent.Body.String() {
					t.Errorf("%s with %s: %d %s", request[0], odd, w.Code, w.Body)
				}
			}
		}
		e.call(bob, fmt.Sprintf("GET /users/1/certificates/%d", id), "").want(t, http.StatusForbidden, fault.CodeForbidden)
		e.call(deviceToken(bobsDevice), fmt.Sprintf("GET /devices/self/certificates/%d", id), "").want(t, http.StatusNotFound, fault.CodeNotFound)
		e.call(bob, fmt.Sprintf("POST /me/devices/%d/certificates", device1), `{"cert_id":1}`).want(t, http.StatusNotFound, fault.CodeNotFound)
		e.call(alice, "POST /me/certificates", `{"domain_name":"a.example","acct_id":12}`).want(t, http.StatusNotFound, fault.CodeNotFound)
		e.call(alice, fmt.Sprintf("PUT /me/certificates/%d", id), `{"acct_id":12}`).want(t, http.StatusNotFound, fault.CodeNotFound)
		if after := e.call(alice, fmt.Sprintf("GET /me/certificates/%d", id), "").Body.String(); after != before {
			t.Errorf("changed:\n%s\n%s", before, after)
		}
	})
}

func filled(form, id string) string { return strings.ReplaceAll(form, "%s", id) }

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	for _, test := range []struct{ body, says string }{
		{`{"acct_id":11}`, "domain_name"},
		{`{"domain_name":"","acct_id":11}`, "domain_name"},
		{`{"domain_name":"a..b","acct_id":11}`, "domain_name"},
		{`{"domain_name":"a.example","sans":["b.example","x*.example"],"acct_id":11}`, "sans[1]"},
		{`{"domain_name":"a.example"}`, "acct_id"},
		{`{"domain_name":"a.example","acct_id":0}`, "acct_id"},
		{`{"domain_name":"a.example","acct_id":"11"}`, "acct_id"},
		{`{"domain_name":"a.example","acct_id":11,"challenge":"dns-01"}`, "http-01"},
		{`{"domain_name":"a.example","acct_id":11,"challenge":"device"}`, "http-01"},
		{`{"domain_name":"a.example","acct_id":11,"dns_credential_id":4}`, "dns_credential_id"},
		{`{"domain_name":"a.example","acct_id":11,"fallback_acct_ids":[11]}`, "fallback_acct_ids"},
		{`{"domain_name":"a.example","acct_id":11,"key_algorithm":"RSA"}`, "key_algorithm"},
		{`{"domain_name":"a.example","acct_id":11,"key_algorithm":"ED25519"}`, "key_algorithm"},
		{`{"domain_name":"a.example","acct_id":11,"policy":"NONE"}`, "policy"},
		{`{"domain_name":"a.example","acct_id":11,"renew_before_days":-1}`, "renew_before_days"},
		{`{"domain_name":"a.example","acct_id":11,"renewal_window":{"start_hour":24}}`, "start_hour"},
		{`{"domain_name":"a.example","acct_id":11,"renewal_window":{"weekdays":["MO"]}}`, "weekdays[0]"},
		{`{"domain_name":"a.example","acct_id":11,"country":"DEU"}`, "country"},
		{`{"domain_name":"a.example","acct_id":11,"locality":"a\nb"}`, "locality"},
		{`{"domain_name":"a.example","acct_id":11,"organization":"` + strings.Repeat("x", 65) + `"}`, "organization"},
		{`{"domain_name":"a.example","acct_id":11,"colour":"red"}`, "colour"},
		{`{"domain_name":"a.example","acct_id":11,"action":"destroy"}`, "action"},
		{`{"domain_name":"a.example","acct_id":11,"csr_pem":"x"}`, "csr_pem"},
		{`{"domain_name":"a.example","acct_id":11,"private_key_pem":"x"}`, "private_key_pem"},
		{`{"action":"csr","acct_id":11}`, "csr_pem"},
		{`{"action":"csr","acct_id":11,"csr_pem":"hello"}`, "csr_pem"},
		{`{"action":"import"}`, "cert_pem"},
		{`{"action":"import","cert_pem":"hello","private_key_pem":"x"}`, "cert_pem"},
		{`{"domain_name":"a.example","acct_id":11`, "JSON"},
		{`[]`, "object"},
		{`null`, ""},
	} {
		w := e.call(alice, "POST /me/certificates", test.body).want(t, http.StatusBadRequest, fault.CodeInvalid)
		if !strings.Contains(w.body.Error.What, test.says) {
			t.Errorf("%s: %q does not name %s", test.body, w.body.Error.What, test.says)
		}
	}
	if n := e.count("SELECT COUNT(*) FROM certificates"); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestKeysAreLimited(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	mine, other := e.create("").ID, e.create("").ID
	e.issue(mine)
	e.issue(other)
	reader := e.grant("ak_r", scope, mine, "read")
	writer := e.grant("ak_w", scope, mine, "read", "write")
	issuer := e.grant("ak_ri", scope, mine, "read", "issue")
	elsewhere := e.grant("ak_d", "devices", "*", "read", "write")
	one := fmt.Sprintf("/me/certificates/%d", mine)
	two := fmt.Sprintf("/me/certificates/%d", other)
	for _, test := range []struct {
		key, line, body string
		status          int
		code            fault.Code
	}{
		{reader, "GET " + one, "", 200, 0},
		{reader, "GET " + two, "", 404, fault.CodeNotFound},
		{reader, "PUT " + one, `{"auto_renew":false}`, 403, fault.CodeForbidden},
		{reader, "DELETE " + one, "", 403, fault.CodeForbidden},
		{reader, "GET " + one + "/export", "", 403, fault.CodeForbidden},
		{issuer, "GET " + one + "/export", "", 200, 0},
		{issuer, "GET " + two + "/export", "", 404, fault.CodeNotFound},
		{writer, "POST /me/certificates", `{"domain_name":"a.example","acct_id":11}`, 403, fault.CodeForbidden},
		{writer, "PUT " + one, `{"auto_renew":false}`, 200, 0},
		{writer, "PUT " + two, `{"auto_renew":false}`, 404, fault.CodeNotFound},
		{writer, "PUT " + one, `{"action":"rekey"}`, 403, fault.CodeForbidden},
		{elsewhere, "GET " + one, "", 403, fault.CodeForbidden},
		{elsewhere, fmt.Sprintf("POST /me/devices/%d/certificates", device1), fmt.Sprintf(`{"cert_id":%d}`, mine), 403, fault.CodeForbidden},
		{elsewhere, fmt.Sprintf("GET /me/devices/%d/certificates", device1), "", 403, fault.CodeForbidden},
		{"ak_unknown", "GET " + one, "", 401, fault.CodeUnauthorized},
		{writer, fmt.Sprintf("GET /devices/self/certificates/%d", mine), "", 401, fault.CodeUnauthorized},
	} {
		e.call(test.key, test.line, test.body).want(t, test.status, test.code)
	}
	e.call(nil, "GET "+one, "").want(t, 401, fault.CodeUnauthorized)
	e.call(alice, "PATCH "+one, "").want(t, 405, fault.CodeInvalid)
}

func TestOpenAPIHasEveryRoute(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	document, err := e.mux.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"enc_data_key_b64", "fallback_acct_ids", "wrap_ready", "private_key_pem", "/apiv1/users/{user_id}/certificate-assign"} {
		if !bytes.Contains(document, []byte(word)) {
			t.Errorf("the document lacks %s", word)
		}
	}
	if n := len(e.mux.Routes()); n != 15 {
		t.Errorf("%d routes", n)
	}
	if !slices.ContainsFunc(e.mux.Routes(), func(r web.RouteInfo) bool { return r.Raw }) {
		t.Error("the export is not raw")
	}
}
