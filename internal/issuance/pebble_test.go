package issuance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestIssue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _, front := pebble(t, db, acmetest.Options{NonceRejectPercent: 20})
		n := w.start()
		front.use(n)
		certID := n.addCert("www.example.test", "example.test")
		begin := time.Now()
		i := n.ended(n.trigger(certID, ""))
		t.Logf("%v from trigger to end", time.Since(begin))
		for _, line := range i.Log {
			t.Logf("%6d ms %s: %s", line.At-i.StartedAt, line.Step, line.Message)
		}
		if i.Status != StatusSuccess || i.ErrorMessage != "" || i.CompletedAt < i.StartedAt || !strings.HasPrefix(i.OrderURL, "https://") {
			t.Fatalf("%+v", i)
		}
		c := n.cert(certID)
		if !c.Issued() || c.LastIssue == nil || c.LastIssue.Status != StatusSuccess || c.LastIssue.ID != i.ID || !c.Verified {
			t.Fatalf("certificate: %+v", c)
		}
		if got := w.events(i.ID); got != 1 {
			t.Errorf("%d events in the outbox, want 1", got)
		}
		if got := w.count("SELECT COUNT(*) FROM http01_challenges"); got != 0 {
			t.Errorf("%d challenges left", got)
		}
		if got := w.count("SELECT COUNT(*) FROM issuances WHERE private_key IS NOT NULL"); got != 0 {
			t.Errorf("%d keys left", got)
		}
	})
}

func TestValidationThatFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca, front := pebble(t, db, acmetest.Options{Blocklist: []string{"blocked.example.test"}})
		n := w.start()
		front.use(n)
		ca.FailValidation(t, "broken.example.test")
		certID := n.addCert("fine.example.test", "broken.example.test")
		i := n.ended(n.trigger(certID, ""))
		if i.Status != StatusFailed || !strings.Contains(i.ErrorMessage, "broken.example.test") || !strings.Contains(i.ErrorMessage, "urn:ietf:params:acme:error:") {
			t.Errorf("%+v", i)
		}
		if n.issued(certID) || w.events(i.ID) != 0 {
			t.Error("a failure had the effects of a success")
		}
		if i := n.ended(n.trigger(n.addCert("blocked.example.test"), "")); i.Status != StatusFailed || !strings.Contains(i.ErrorMessage, "rejectedIdentifier") {
			t.Errorf("%+v", i)
		}
		ca.AllowValidation(t, "broken.example.test")
		if i := n.ended(n.trigger(certID, "")); i.Status != StatusSuccess || i.IssueAttemptNumber != 2 {
			t.Errorf("%+v", i)
		}
		w.clean()
	})
}

// Slow validations, with the CA asking for patience, hold no worker.
func TestCAThatAsksForPatience(t *testing.T) {
	t.Parallel()
	w, _, front := pebble(t, dbtest.SQLite(t), acmetest.Options{RetryAfterOrder: time.Second, RetryAfterAuthz: 2 * time.Second, AuthzReusePercent: 100})
	n := w.start()
	front.use(n)
	certID := n.addCert("a.example.test")
	for k := range 2 { // the second order's authorization is valid already
		if i := n.ended(n.trigger(certID, `{"force":true}`)); i.Status != StatusSuccess {
			t.Errorf("order %d: %+v", k, i)
		}
	}
	w.clean()
}

func TestWishedValidity(t *testing.T) {
	t.Parallel()
	w, _, front := pebble(t, dbtest.SQLite(t), acmetest.Options{})
	n := w.start()
	front.use(n)
	certID := n.addCert("a.example.test")
	i := n.ended(n.trigger(certID, `{"validity_seconds":3600}`))
	if i.Status != StatusSuccess {
		t.Fatalf("%+v", i)
	}
	c := n.cert(certID)
	if got := time.UnixMilli(c.NotAfter).Sub(time.UnixMilli(i.StartedAt)); got < 59*time.Minute || got > 61*time.Minute {
		t.Errorf("valid for %v, want an hour", got)
	}
}

// A short-lived certificate renews by itself.
func TestRenewsByItself(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _, front := pebble(t, db, acmetest.Options{Lifetime: 6 * time.Second})
		n := w.start()
		front.use(n)
		certID := n.addCert("a.example.test")
		first := n.ended(n.trigger(certID, ""))
		serial := n.cert(certID).SerialNumber
		eventually(t, func() bool { return n.cert(certID).SerialNumber != serial }, func() string { return "the serial number stays" })
		var list []Issuance
		n.do("GET", fmt.Sprintf("/certificates/%d/issues", certID), "").data(t, &list)
		if renewal := list[len(list)-2]; renewal.Trigger != TriggerRenewal || renewal.ID == first.ID || w.events(renewal.ID) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

// Many certificates on two nodes of one PostgreSQL: each has one order, one
// event, and the CA may ask either node.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	w, _, front := pebble(t, dbtest.Open(t, dbtest.PostgresConfig(t)), acmetest.Options{NonceRejectPercent: 5})
	nodes := []*node{w.start(), w.start()}
	front.use(nodes[0])
	var started []Issuance
	for k := range 20 {
		n := nodes[k%2]
		started = append(started, n.trigger(n.addCert(fmt.Sprintf("n%d.example.test", k), "shared.example.test"), ""))
	}
	for _, i := range started {
		if got := nodes[1].ended(i); got.Status != StatusSuccess || w.events(i.ID) != 1 {
			t.Errorf("%+v", got)
		}
	}
	if got := w.count("SELECT COUNT(*) FROM issuance_orders"); got != len(started) {
		t.Errorf("%d orders for %d certificates", got, len(started))
	}
	w.clean()
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w, _, front := pebble(t, dbtest.SQLite(t), acmetest.Options{})
	n := w.start()
	front.use(n)
	certID := n.addCert("a.example.test")
	if i := n.ended(n.trigger(certID, "")); i.Status != StatusSuccess {
		t.Fatalf("%+v", i)
	}
	c := n.cert(certID)
	leaf := leafOf(c)
	for range 2 { // again is no error
		if err := n.Revoke(t.Context(), c, leaf.Raw, 4); err != nil {
			t.Error(err)
		}
	}
	if err := n.Revoke(t.Context(), c, leaf.Raw, 77); !fault.Is(err, fault.CodeConflict) && err != nil {
		t.Errorf("a reason that does not exist: %v", err)
	}
	if err := n.db().InTx(t.Context(), func(tx *sqldb.Tx) error { return n.VerifyDomain(t.Context(), tx, c) }); err != nil {
		t.Error(err)
	}
}

func (n *node) db() *sqldb.DB { return n.w.db }
