package certs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func quoted(t *testing.T, text []byte) string {
	t.Helper()
	out, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestImport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		chain, key := threeTier(t, "a.example", "*.b.example")
		der := must(MarshalKey(key))(t)
		body := func(extra string) string {
			return `{"action":"import","cert_pem":` + quoted(t, chain.LeafPEM()) + `,"chain_pem":` + quoted(t, chain.IssuersPEM()) +
				`,"private_key_pem":` + quoted(t, KeyPEM(der)) + extra + `}`
		}
		c := e.call(alice, "POST /me/certificates", body("")).want(t, 201, 0).record(t)
		if c.Status != StatusActive || c.DomainName != "a.example" || c.NextRenewalAt != 0 || c.AcctID != 0 || c.Verified || c.Cert != string(chain.FullPEM()) {
			t.Errorf("%+v", c)
		}
		e.assign(device1, c.ID).want(t, 204, 0)
		if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), der) {
			t.Error("another key")
		}
		renewing := e.call(alice, "POST /me/certificates", body(`,"acct_id":11,"domain_name":"www.b.example","sans":[]`)).want(t, 201, 0).record(t)
		if renewing.NextRenewalAt == 0 || renewing.DomainName != "www.b.example" {
			t.Errorf("%+v", renewing)
		}
		other := must(MarshalKey(mustKey(t, AlgorithmECDSA)))(t)
		for says, body := range map[string]string{
			"private_key_pem": strings.Replace(body(""), quoted(t, KeyPEM(der)), quoted(t, KeyPEM(other)), 1),
			"cover":           body(`,"domain_name":"c.example"`),
			"cert_pem":        strings.Replace(body(""), quoted(t, chain.LeafPEM()), quoted(t, KeyPEM(der)), 1),
			"csr_pem":         body(`,"csr_pem":"x"`),
			"policy":          body(`,"policy":"DEVICE_REQUIRED"`),
		} {
			w := e.call(alice, "POST /me/certificates", body).want(t, 400, fault.CodeInvalid)
			if !strings.Contains(w.body.Error.What, says) || strings.Contains(w.Body.String(), "BEGIN") {
				t.Errorf("%s: %s", says, w.Body)
			}
		}
		if n := e.count("SELECT COUNT(*) FROM certificates"); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}

func TestCSRRecord(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		key := mustKey(t, AlgorithmECDSAP384)
		names := Names{Domain: "a.example", SANs: []string{"a.example", "b.example"}}
		der := must(CreateCSR(key, names, Subject{}))(t)
		text := quoted(t, CSR{DER: der}.PEM())
		e.call(alice, "POST /me/certificates", `{"action":"csr","acct_id":11,"sans":["c.example"],"csr_pem":`+text+`}`).want(t, 400, fault.CodeInvalid)
		// Its key is outside: who has the password alone would get a certificate of the owner's names.
		e.call(staleUser(alice), "POST /me/certificates", `{"action":"csr","acct_id":11,"csr_pem":`+text+`}`).want(t, 403, fault.CodeStepUpRequired)
		c := e.call(alice, "POST /me/certificates", `{"action":"csr","acct_id":11,"csr_pem":`+text+`}`).want(t, 201, 0).record(t)
		if c.KeyAlgorithm != AlgorithmECDSAP384 || c.DomainName != "a.example" || !strings.Contains(c.CSR, "CERTIFICATE REQUEST") {
			t.Errorf("%+v", c)
		}
		got, keyDER, err := e.s.CSRFor(t.Context(), db.Reader(), c)
		if err != nil || !bytes.Equal(got, der) || keyDER != nil {
			t.Errorf("CSRFor: %v, a key of %d bytes", err, len(keyDER))
		}
		ca := newCA(t, "CA", nil)
		store := func(in Issued) error {
			return db.InTx(t.Context(), func(tx *sqldb.Tx) error { _, err := e.s.Store(t.Context(), tx, in); return err })
		}
		wrong := Issued{CertID: c.ID, Chain: Chain{Leaf: ca.leaf(t, mustKey(t, AlgorithmECDSA), names.All()...)}}
		if err := store(wrong); !fault.Is(err, fault.CodeInvalid) {
			t.Errorf("a leaf for another key: %v", err)
		}
		good := Issued{CertID: c.ID, Chain: Chain{Leaf: ca.leaf(t, key, names.All()...)}}
		if err := store(Issued{CertID: c.ID, Chain: good.Chain, KeyDER: must(MarshalKey(key))(t)}); !fault.Is(err, fault.CodeInvalid) {
			t.Errorf("a key beside a signing request: %v", err)
		}
		if err := store(good); err != nil {
			t.Fatal(err)
		}
		e.assign(device1, c.ID).want(t, 204, 0)
		e.materials(device1, c.ID).want(t, 404, fault.CodeNotFound)
		if export := e.call(alice, fmt.Sprintf("GET /me/certificates/%d/export?format=pem", c.ID), ""); strings.Contains(export.Body.String(), "PRIVATE") {
			t.Error("a key from nowhere")
		}
		e.put(c.ID, `{"sans":["c.example"]}`).want(t, 400, fault.CodeInvalid)
		e.put(c.ID, `{"key_algorithm":"ECDSA"}`).want(t, 400, fault.CodeInvalid)
		e.put(c.ID, `{"action":"rekey"}`).want(t, 409, fault.CodeConflict)
		e.put(c.ID, `{"policy":"DEVICE_REQUIRED"}`).want(t, 200, 0)
		e.put(c.ID, `{"policy":"HYBRID"}`).want(t, 200, 0)
	})
}
