package issuance

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// passing are answers after which the same request may succeed.
func passing() map[string]hostile.Answer {
	return map[string]hostile.Answer{
		"busy": hostile.Busy(0), "broken": hostile.Broken(), "bad nonce": hostile.BadNonce(), "garbage": hostile.Garbage(),
		"page": hostile.HTML(), "closed": hostile.Close(), "closed after": hostile.CloseAfter(), "truncated": hostile.Truncated(),
		"nothing at all": hostile.Hang(), "502": hostile.Status(http.StatusBadGateway, "upstream"),
	}
}

// needed are the steps of every issuance whose account is not registered yet.
func needed() []hostile.Step {
	return []hostile.Step{
		hostile.Directory, hostile.NewNonce, hostile.NewAccount, hostile.NewOrder, hostile.Authorization, hostile.Challenge,
		hostile.Order, hostile.Finalize, hostile.Certificate,
	}
}

// done asserts that the attempt succeeded, once and for all.
func (w *world) done(n *node, ca *hostile.CA, i Issuance) {
	w.t.Helper()
	if i.Status != StatusSuccess {
		w.t.Errorf("%+v", i)
	}
	if got := w.events(i.ID); got != 1 {
		w.t.Errorf("%d events, want 1", got)
	}
	if ca != nil && ca.Issued() != 1 {
		w.t.Errorf("%d certificates issued, want 1", ca.Issued())
	}
	if c := n.cert(i.CertRecordID); !c.Issued() || c.LastIssue.Status != StatusSuccess {
		w.t.Errorf("certificate: %+v", c)
	}
	w.clean()
}

// clean asserts that nothing is left open or lying about.
func (w *world) clean() {
	w.t.Helper()
	for what, query := range map[string]string{
		"open attempts": "SELECT COUNT(*) FROM issuances WHERE status IN ('PENDING', 'PROCESSING')",
		"challenges":    "SELECT COUNT(*) FROM http01_challenges",
		"keys":          "SELECT COUNT(*) FROM issuances WHERE private_key IS NOT NULL",
	} {
		if got := w.count(query); got != 0 {
			w.t.Errorf("%d %s left", got, what)
		}
	}
}

func TestCAThatFailsOnceAtAnyStep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for name, answer := range passing() {
			if db.Dialect() == sqldb.Postgres && name != "closed after" && name != "broken" {
				continue // what the CA does is the same for both engines; two are enough to see that ours does
			}
			t.Run(name, func(t *testing.T) {
				for _, step := range needed() {
					if name == "bad nonce" && step == hostile.NewNonce {
						continue // no nonce is sent for one
					}
					t.Run(string(step), func(t *testing.T) {
						w, ca := hostileWorld(t, db)
						w.options.RequestTimeout = 500 * time.Millisecond
						n := w.quiet()
						ca.Next(step, answer, answer)
						i := n.finished(n.trigger(n.addCert("a.example.test", "b.example.test"), ""))
						w.done(n, ca, i)
						lost := step == hostile.NewOrder && (name == "closed after" || name == "truncated")
						want := 1
						if lost {
							want = 3 // two whose answers nobody heard
						}
						if ca.Orders() != want {
							t.Errorf("%d orders, want %d", ca.Orders(), want)
						}
					})
				}
			})
		}
	})
}

func TestCAThatRefuses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, step := range needed() {
			t.Run(string(step), func(t *testing.T) {
				w, ca := hostileWorld(t, db)
				n := w.quiet()
				var log bytes.Buffer
				n.Log = slog.New(slog.NewTextHandler(&log, nil))
				ca.Always(step, hostile.Problem(http.StatusForbidden, "rejectedIdentifier", "not for you\r\nno"))
				i := n.finished(n.trigger(n.addCert("a.example.test"), ""))
				said := strings.Contains(i.ErrorMessage, "rejectedIdentifier") && strings.Contains(i.ErrorMessage, "not for you")
				if step == hostile.NewNonce {
					said = strings.Contains(i.ErrorMessage, "new nonce") // HEAD has no body
				}
				if i.Status != StatusFailed || !said || strings.ContainsAny(i.ErrorMessage, "\r\n") {
					t.Errorf("%+v", i)
				}
				if w.events(i.ID) != 0 || n.issued(i.CertRecordID) || n.cert(i.CertRecordID).LastIssue.Status != StatusFailed {
					t.Error("a failure had the effects of a success")
				}
				if ends := strings.Count(log.String(), fmt.Sprintf(`msg="an issuance has ended" issue_id=%d `, i.ID)); ends != 1 || !strings.Contains(log.String(), "status=FAILED") {
					t.Errorf("the end is logged %d times: %s", ends, &log)
				}
				w.clean()
			})
		}
	})
}

func TestWhatTheCAMayNotBring(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan func(*hostile.CA)
		want string
	}{
		"another key":     {func(ca *hostile.CA) { ca.Always(hostile.Certificate, ca.WrongKey()) }, "another key"},
		"endless chain":   {func(ca *hostile.CA) { ca.Always(hostile.Certificate, ca.EndlessChain(50)) }, "gave up"},
		"expired":         {func(ca *hostile.CA) { ca.Lifetime(-time.Second) }, "not valid any more"},
		"token as a path": {func(ca *hostile.CA) { ca.Always(hostile.Authorization, hostile.Token("../../../etc/passwd")) }, "not base64url"},
		"failed validation": {func(ca *hostile.CA) {
			ca.Always(hostile.Authorization, hostile.Invalid("b.example.test", "connection", "refused by 192.0.2.1"))
		}, "b.example.test"},
		"other order": {func(ca *hostile.CA) { ca.Always(hostile.NewOrder, hostile.Location("http://169.254.169.254/")) }, "not accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ca := hostileWorld(t, dbtest.SQLite(t))
			w.change = func(s *Service) { s.backoff = func(int64, *acme.Problem) time.Duration { return 30 * time.Minute } }
			if c.want == "gave up" {
				w.change = func(s *Service) { s.backoff = func(int64, *acme.Problem) time.Duration { return 2 * time.Hour } }
			}
			n := w.quiet()
			c.plan(ca)
			i := n.finished(n.trigger(n.addCert("a.example.test", "b.example.test"), ""))
			if i.Status != StatusFailed || !strings.Contains(i.ErrorMessage, c.want) {
				t.Errorf("%+v", i)
			}
			if n.issued(i.CertRecordID) {
				t.Error("the certificate was stored")
			}
			w.clean()
		})
	}
}

func TestAccountThatTheCALost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		gone := hostile.Problem(http.StatusBadRequest, "accountDoesNotExist", "who are you")
		ca.Next(hostile.NewOrder, gone)
		certID := n.addCert("a.example.test")
		w.done(n, ca, n.finished(n.trigger(certID, "")))
		if got := ca.Requests(hostile.NewAccount); got != 2 {
			t.Errorf("%d registrations, want 2", got)
		}
		ca.Always(hostile.NewOrder, gone)
		if i := n.finished(n.trigger(certID, "")); i.Status != StatusFailed || !strings.Contains(i.ErrorMessage, "who are you") {
			t.Errorf("%+v", i)
		}
		if got := ca.Requests(hostile.NewAccount); got != 3 {
			t.Errorf("%d registrations, want 3", got)
		}
	})
}

func TestOrderThatTheCALost(t *testing.T) {
	t.Parallel()
	gone := hostile.Problem(http.StatusNotFound, "malformed", "no such order")
	for name, c := range map[string]struct {
		plan   func(*hostile.CA)
		status Status
		orders int
	}{
		"before it was finalised": {func(ca *hostile.CA) { ca.Next(hostile.Authorization, gone) }, StatusSuccess, 2},
		"when it was finalised":   {func(ca *hostile.CA) { ca.Next(hostile.Finalize, gone) }, StatusFailed, 1},
		"after it was finalised":  {func(ca *hostile.CA) { ca.Next(hostile.Certificate, gone) }, StatusFailed, 1},
		"again and again":         {func(ca *hostile.CA) { ca.Always(hostile.Authorization, gone) }, StatusFailed, 1 + maxReplacements},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ca := hostileWorld(t, dbtest.SQLite(t))
			n := w.quiet()
			c.plan(ca)
			i := n.finished(n.trigger(n.addCert("a.example.test"), ""))
			if i.Status != c.status || ca.Orders() != c.orders {
				t.Errorf("%d orders, %+v", ca.Orders(), i)
			}
			if c.status == StatusFailed && !strings.Contains(i.ErrorMessage, "no such order") {
				t.Errorf("error_message: %s", i.ErrorMessage)
			}
			w.clean()
		})
	}
}

func TestCAThatStaysAway(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		var tries int64
		w.change = func(s *Service) {
			s.backoff = func(n int64, p *acme.Problem) time.Duration {
				tries = n
				return min(backoff(n, p), time.Millisecond) // in fact; what is asked for is tested as a rule
			}
		}
		n := w.start()
		ca.Always(hostile.NewOrder, hostile.Broken())
		certID := n.addCert("a.example.test")
		i := n.trigger(certID, "")
		eventually(t, func() bool { return ca.Requests(hostile.NewOrder) > 5 }, func() string { return "no requests" })
		if got := n.issue(certID, i.ID); got.Status != StatusProcessing {
			t.Errorf("%+v", got)
		}
		begin := w.time()
		w.mu.Lock()
		w.now = func() time.Time { return begin.Add(patience) }
		w.mu.Unlock()
		i = n.ended(i)
		if i.Status != StatusFailed || !strings.Contains(i.ErrorMessage, "gave up after 1h") || !strings.Contains(i.ErrorMessage, "serverInternal") {
			t.Errorf("after %d tries: %+v", tries, i)
		}
		w.clean()
	})
}
