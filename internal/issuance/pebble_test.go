package issuance

import (
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
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
