package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func (e *env) put(id int64, body string) *response {
	e.t.Helper()
	return e.call(alice, fmt.Sprintf("PUT /me/certificates/%d", id), body)
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		e.issue(c.ID)
		before := e.record(c.ID)
		e.now.Add(1000)
		after := e.put(c.ID, `{"action":"update","sans":[],"organization":"O","renew_before_days":30,"renewal_window":{"weekdays":["mon"],"start_hour":2,"end_hour":4},
			"key_algorithm":"RSA_2048","server_decrypt_export":true}`).want(t, 200, 0).record(t)
		if len(after.SANs) != 0 || after.DomainName != c.DomainName || after.Verified || after.Organization != "O" || after.RenewBeforeDays != 30 ||
			after.KeyAlgorithm != AlgorithmRSA2048 || !after.ServerDecryptExport || after.NextRenewalAt <= before.NextRenewalAt {
			t.Errorf("%+v", after)
		}
		if at := time.UnixMilli(after.NextRenewalAt).UTC(); at.Weekday() != time.Monday || at.Hour() < 2 || at.Hour() > 3 {
			t.Errorf("renews at %v", at)
		}
		if w := after.RenewalWindow; w == nil || w.Weekdays[0] != "MON" || after.Cert != before.Cert || after.UpdatedAt != before.UpdatedAt+1000 {
			t.Errorf("%+v", after)
		}
		if stored := e.record(c.ID); fmt.Sprintf("%+v%+v%+v", stored.NextRenewalAt, stored.RenewalWindow, stored.SANs) != fmt.Sprintf("%+v%+v%+v", after.NextRenewalAt, after.RenewalWindow, after.SANs) {
			t.Errorf("stored %+v", stored)
		}
		if off := e.put(c.ID, `{"auto_renew":false,"renewal_window":{}}`).record(t); off.NextRenewalAt != 0 || off.RenewalWindow != nil {
			t.Errorf("switched off: %+v", off)
		}
		for body, says := range map[string]string{
			`{"domain_name":"-"}`:                          "domain_name",
			`{"acct_id":0}`:                                "acct_id",
			`{"reason":1}`:                                 "reason",
			`{"action":"revoke","auto_renew":true}`:        "revoke",
			`{"action":"verify_domain","policy":"X"}`:      "verify_domain",
			`{"action":"rekey","auto_renew":true}`:         "rekey",
			`{"action":"revoke","reason":2}`:               "reason",
			`{"action":"revoke","reason":"keyCompromise"}`: "reason",
			`{"action":"explode"}`:                         "action",
			`{"challenge":"tls-alpn-01"}`:                  "http-01",
			`{"cert_pem":"x"}`:                             "cert_pem",
		} {
			if w := e.put(c.ID, body).want(t, 400, fault.CodeInvalid); !strings.Contains(w.body.Error.What, says) {
				t.Errorf("%s: %s", body, w.body.Error.What)
			}
		}
	})
}

func TestActions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		if w := e.put(c.ID, `{"action":"verify_domain"}`).want(t, http.StatusNoContent, 0); w.Body.Len() != 0 || len(e.issuer.verified) != 1 {
			t.Errorf("verify_domain: %s, %v", w.Body, e.issuer.verified)
		}
		e.put(c.ID, `{"action":"revoke"}`).want(t, 409, fault.CodeNotIssued)
		e.issue(c.ID)
		old := e.record(c.ID)
		e.issuer.during = func() { e.issue(c.ID) }
		if w := e.put(c.ID, `{"action":"revoke","reason":4}`).want(t, 200, 0).record(t); w.Status != StatusActive || w.SerialNumber == old.SerialNumber {
			t.Errorf("renewed while it was revoked: %+v", w)
		}
		e.issuer.during = nil
		e.issuer.err = fault.Unavailable(time.Minute, "The CA is away.", nil)
		e.put(c.ID, `{"action":"revoke"}`).want(t, 503, fault.CodeUnavailable)
		if e.record(c.ID).Status != StatusActive {
			t.Error("revoked although the CA refused")
		}
		e.issuer.err = nil
		revoked := e.put(c.ID, `{"action":"revoke","reason":1}`).want(t, 200, 0).record(t)
		if revoked.Status != StatusRevoked || revoked.RevokeReason != 1 || revoked.RevokedAt != e.now.Load() || revoked.NextRenewalAt != 0 {
			t.Errorf("%+v", revoked)
		}
		asked := len(e.issuer.revoked)
		e.put(c.ID, `{"action":"revoke"}`).want(t, 200, 0)
		if len(e.issuer.revoked) != asked {
			t.Error("the CA is asked twice")
		}
		if again := e.put(c.ID, `{"auto_renew":false}`).record(t); again.NextRenewalAt != 0 {
			t.Error("no renewal, please")
		}
		if again := e.put(c.ID, `{"auto_renew":true}`).record(t); again.NextRenewalAt != 0 || again.Status != StatusRevoked {
			t.Error("a revoked certificate renews by itself")
		}
		e.put(c.ID, `{"action":"rekey","key_algorithm":"ECDSA_P384"}`).want(t, 200, 0)
		if len(e.issuer.started) != 1 {
			t.Errorf("started %v", e.issuer.started)
		}
		e.issue(c.ID)
		if c := e.record(c.ID); c.Status != StatusActive || c.NextRenewalAt == 0 || c.KeyAlgorithm != AlgorithmECDSAP384 {
			t.Errorf("issued anew: %+v", c)
		}
		e.s.SetIssuer(nil)
		for _, action := range []string{"verify_domain", "revoke", "rekey"} {
			e.put(c.ID, `{"action":"`+action+`"}`).want(t, 503, fault.CodeUnavailable)
		}
	})
}

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

// TestStoreRefuses: cert-manager#8414 of threats.md, a CA's answer for another
// key or other names is not stored.
func TestStoreRefuses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		e.assign(device1, c.ID)
		e.signals(device1)
		good := e.issued(c.ID)
		store := func(in Issued) error {
			return db.InTx(t.Context(), func(tx *sqldb.Tx) error { _, err := e.s.Store(t.Context(), tx, in); return err })
		}
		otherKey := good
		otherKey.KeyDER = must(MarshalKey(mustKey(t, AlgorithmECDSA)))(t)
		fewer := good
		key := must(ParseKey(good.KeyDER))(t)
		fewer.Chain.Leaf = newCA(t, "CA", nil).leaf(t, key, "www.example.com")
		noKey := good
		noKey.KeyDER = nil
		gone := good
		gone.CertID = 99
		for name, in := range map[string]Issued{"another key": otherKey, "fewer names": fewer, "no key": noKey} {
			if err := store(in); !fault.Is(err, fault.CodeInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := store(gone); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("a deleted record: %v", err)
		}
		if got := e.record(c.ID); got.Status != StatusNew || got.Cert != "" || len(e.signals(device1)) != 0 {
			t.Errorf("changed: %+v", got)
		}
		if err := store(good); err != nil {
			t.Fatal(err)
		}
		// The same key again: the wraps of before still open it.
		kept := Issued{CertID: c.ID, Chain: Chain{Leaf: newCA(t, "CA", nil).leaf(t, key, c.Names().All()...)}}
		if err := store(kept); err != nil {
			t.Fatal(err)
		}
		if got := e.signals(device1); len(got) != 2 || got[1] != updated(e, e.record(c.ID), device1, true) {
			t.Errorf("signals %v", got)
		}
		if !bytes.Equal(e.materials(device1, c.ID).open(e, device1), good.KeyDER) {
			t.Error("another key")
		}
	})
}

func TestRenewalQueue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		due := func(at int64) []int64 {
			list, err := e.s.DueForRenewal(t.Context(), db.Reader(), at, 10)
			if err != nil {
				t.Fatal(err)
			}
			ids := []int64{}
			for _, c := range list {
				ids = append(ids, c.ID)
			}
			return ids
		}
		in := func(f func(ctx context.Context, tx *sqldb.Tx) error) {
			t.Helper()
			if err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { return f(t.Context(), tx) }); err != nil {
				t.Fatal(err)
			}
		}
		a, b, off := e.create("").ID, e.create("").ID, e.create(`,"auto_renew":false`).ID
		e.create("") // never issued: nothing to renew
		for _, id := range []int64{a, b, off} {
			e.issue(id)
		}
		in(func(ctx context.Context, tx *sqldb.Tx) error { return e.s.PostponeRenewal(ctx, tx, a, 2000) })
		in(func(ctx context.Context, tx *sqldb.Tx) error { return e.s.PostponeRenewal(ctx, tx, b, 1000) })
		in(func(ctx context.Context, tx *sqldb.Tx) error { return e.s.PostponeRenewal(ctx, tx, off, 1000) })
		for at, want := range map[int64]string{999: "[]", 1000: fmt.Sprint([]int64{b}), 5000: fmt.Sprint([]int64{b, a})} {
			if got := fmt.Sprint(due(at)); got != want {
				t.Errorf("due at %d: %s, want %s", at, got, want)
			}
		}
		in(func(ctx context.Context, tx *sqldb.Tx) error { return e.s.NoteIssue(ctx, tx, a, 7, "PENDING", 10) })
		in(func(ctx context.Context, tx *sqldb.Tx) error { return e.s.NoteIssue(ctx, tx, a, 7, "PROCESSING", 11) })
		in(func(ctx context.Context, tx *sqldb.Tx) error { return e.s.NoteIssue(ctx, tx, a, 6, "FAILED", 12) })
		if l := e.record(a).LastIssue; l == nil || *l != (LastIssue{7, "PROCESSING", 11}) {
			t.Errorf("last issue %+v", l)
		}
	})
}

// TestOwnersGo: a used account stays, a deleted user takes all along.
func TestOwnersGo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		e.assign(device1, c.ID)
		e.issue(c.ID)
		_, err := db.Writer().ExecContext(t.Context(), "DELETE FROM acme_accounts WHERE id = $1", aliceAccount)
		if !sqldb.Is(err, sqldb.ErrForeignKey) {
			t.Errorf("delete the account: %v", err)
		}
		e.exec("DELETE FROM devices WHERE id = $1", device1)
		if n := e.count("SELECT COUNT(*) FROM certificate_wraps"); n != 0 {
			t.Errorf("%d wraps of a deleted device", n)
		}
		e.exec("DELETE FROM users WHERE id = $1", alice)
		if n := e.count("SELECT COUNT(*) FROM certificates") + e.count("SELECT COUNT(*) FROM certificate_materials"); n != 0 {
			t.Errorf("%d rows of a deleted user", n)
		}
	})
}
