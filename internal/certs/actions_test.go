package certs

import (
	"bytes"
	"context"
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
		show := func(c Certificate) string {
			return fmt.Sprintf("%+v %+v %+v", c.NextRenewalAt, c.RenewalWindow, c.SANs)
		}
		if stored := e.record(c.ID); show(stored) != show(after) {
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
			list, _, err := e.s.DueForRenewal(t.Context(), db.Reader(), e.now.Load()+at, 0, 10, 10)
			if err != nil {
				t.Fatal(err)
			}
			ids := []int64{}
			for _, d := range list {
				for _, c := range d.Certificates {
					ids = append(ids, c.ID)
				}
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
		in(func(ctx context.Context, tx *sqldb.Tx) error {
			return e.s.PostponeRenewal(ctx, tx, a, e.now.Load()+2000)
		})
		in(func(ctx context.Context, tx *sqldb.Tx) error {
			return e.s.PostponeRenewal(ctx, tx, b, e.now.Load()+1000)
		})
		in(func(ctx context.Context, tx *sqldb.Tx) error {
			return e.s.PostponeRenewal(ctx, tx, off, e.now.Load()+1000)
		})
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

// TestIssuerNameIsPrintable: a CA's own name must not break the column it goes
// into (PostgreSQL takes no NUL) or the terminal it is shown on.
func TestIssuerNameIsPrintable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		c := e.create("")
		in := e.issued(c.ID)
		key := must(ParseKey(in.KeyDER))(t)
		in.Chain.Leaf = newCA(t, "\x00\x1b[31m"+strings.Repeat("ü", 2000), nil).leaf(t, key, c.Names().All()...)
		err := db.InTx(t.Context(), func(tx *sqldb.Tx) error { _, err := e.s.Store(t.Context(), tx, in); return err })
		if err != nil {
			t.Fatal(err)
		}
		if issuer := e.record(c.ID).Issuer; !strings.HasPrefix(issuer, "CN=??[31mü") || len([]rune(issuer)) > maxIssuer+1 {
			t.Errorf("issuer %.40q", issuer)
		}
	})
}

// TestLooseChain: a CA may send certificates beside the line of issuers.
func TestLooseChain(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	c := e.create("")
	in := e.issued(c.ID)
	for range 2 {
		in.Chain.Issuers = append(in.Chain.Issuers, newCA(t, "Another", nil).certificate)
	}
	err := e.db.InTx(t.Context(), func(tx *sqldb.Tx) error { _, err := e.s.Store(t.Context(), tx, in); return err })
	if err != nil {
		t.Fatal(err)
	}
	w := e.call(alice, fmt.Sprintf("GET /me/certificates/%d/export?format=pem", c.ID), "").want(t, 200, 0)
	if !bytes.HasSuffix(w.Body.Bytes(), in.Chain.FullPEM()) {
		t.Error("the export holds another chain")
	}
	e.put(c.ID, `{"action":"revoke"}`).want(t, 200, 0)
	if !bytes.Equal(e.issuer.revoked[0], in.Chain.Leaf.Raw) {
		t.Error("another leaf is revoked")
	}
}
