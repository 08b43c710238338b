package issuance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		certID := n.addCert("a.example.test")
		issues := fmt.Sprintf("/certificates/%d/issues", certID)

		first := n.do("POST", issues, "")
		var i Issuance
		first.data(t, &i)
		if want := fmt.Sprintf("/apiv1/users/%d%s/%d", w.user, issues, i.ID); first.status != http.StatusCreated || first.header.Get("Location") != want {
			t.Errorf("%d %s", first.status, first.header.Get("Location"))
		}
		if i.Status != StatusPending || i.CertRecordID != certID || i.IssueAttemptNumber != 1 || i.Trigger != TriggerManual || i.AcctID != w.account || i.Challenge != "http-01" || i.StartedAt == 0 {
			t.Errorf("%+v", i)
		}
		if strings.Contains(first.body, "null") {
			t.Errorf("null in %s", first.body)
		}
		for _, body := range []string{"", "{}", `{"validity_seconds":86400}`, `{"force":true}`} {
			again := n.do("POST", issues, body)
			var same Issuance
			again.data(t, &same)
			if again.status != http.StatusOK || same.ID != i.ID {
				t.Errorf("%q: %d %s", body, again.status, again.body)
			}
		}

		if err := n.run(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		var item Issuance
		got := n.do("GET", fmt.Sprintf("%s/%d", issues, i.ID), "")
		got.data(t, &item)
		if item.Status != StatusSuccess || len(item.Log) < 8 || item.Log[0].At == 0 || item.Log[0].Step == "" || item.CompletedAt == 0 {
			t.Errorf("%s", got.body)
		}
		n.trigger(certID, "")
		for _, path := range []string{issues, issues + "/history"} {
			list := n.do("GET", path+"?limit=1", "")
			var rows []Issuance
			list.data(t, &rows)
			if len(rows) != 1 || rows[0].IssueAttemptNumber != 2 || !strings.Contains(list.body, `"meta":{"total":2,"offset":0,"limit":1}`) || strings.Contains(list.body, `"log"`) {
				t.Errorf("%s: %s", path, list.body)
			}
		}
		if ca.Orders() != 1 {
			t.Errorf("%d orders", ca.Orders())
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _ := hostileWorld(t, db)
		n := w.quiet()
		certID := n.addCert("a.example.test")
		issues := fmt.Sprintf("/certificates/%d/issues", certID)
		i := n.trigger(certID, "")
		wildcard := n.addCert("*.example.test")
		other := strconv.FormatInt(w.addUser(fmt.Sprintf("other%d@example.com", w.user)), 10)
		key := func(actions, object string) string {
			return `Bearer ak_[{"Scope":"certificates","Object":"` + object + `","Actions":[` + actions + `]}]`
		}
		me := fmt.Sprintf("/apiv1/users/%d", w.user)
		mine := strconv.FormatInt(certID, 10)
		for _, c := range []struct {
			name, credential, method, path, body string
			status                               int
			contains                             string
		}{
			{"wildcard", "", "POST", fmt.Sprintf("/certificates/%d/issues", wildcard), "", 400, "*.example.test"},
			{"type", "", "POST", issues, `{"validity_seconds":"1"}`, 400, "validity_seconds"},
			{"range", "", "POST", issues, `{"validity_seconds":-1}`, 400, "validity_seconds"},
			{"fraction", "", "POST", issues, `{"validity_seconds":1.5}`, 400, "validity_seconds"},
			{"unknown member", "", "POST", issues, `{"validity":1}`, 400, "validity"},
			{"not JSON", "", "POST", issues, `{`, 400, "5000"},
			{"array", "", "POST", issues, `[]`, 400, "5000"},
			{"limit", "", "GET", issues + "?limit=0", "", 400, "limit"},
			{"offset", "", "GET", issues + "?offset=-1", "", 400, "offset"},
			{"no such certificate", "", "POST", "/certificates/999999/issues", "", 404, "No such certificate."},
			{"no such certificate", "", "GET", "/certificates/999999/issues", "", 404, "No such certificate."},
			{"no such issue", "", "GET", issues + "/999999", "", 404, "No such issue."},
			{"no such issue", "", "DELETE", issues + "/999999", "", 404, "No such issue."},
			{"issue of another certificate", "", "GET", fmt.Sprintf("/certificates/%d/issues/%d", wildcard, i.ID), "", 404, "No such issue."},
			{"foreign certificate", other, "POST", fmt.Sprintf("/apiv1/users/%s%s", other, issues), "", 404, "No such certificate."},
			{"foreign issue", other, "GET", fmt.Sprintf("/apiv1/users/%s%s/%d", other, issues, i.ID), "", 404, "No such certificate."},
			{"foreign issue", other, "DELETE", fmt.Sprintf("/apiv1/users/%s%s/%d", other, issues, i.ID), "", 404, "No such certificate."},
			{"foreign path", other, "POST", me + issues, "", 403, "5022"},
			{"key that reads", key(`"read"`, mine), "POST", "/apiv1/me" + issues, "", 403, "5022"},
			{"key that issues", key(`"issue"`, mine), "POST", "/apiv1/me" + issues, "", 403, "5022"},
			{"key that reads", key(`"read"`, mine), "DELETE", fmt.Sprintf("/apiv1/me%s/%d", issues, i.ID), "", 403, "5022"},
			{"key for another", key(`"read","issue"`, strconv.FormatInt(wildcard, 10)), "POST", "/apiv1/me" + issues, "", 404, "No such certificate."},
			{"key", key(`"read","issue"`, mine), "POST", "/apiv1/me" + issues, "", 200, `"status":"PENDING"`},
			{"key", key(`"read"`, "*"), "GET", "/apiv1/me" + issues + "/history", "", 200, `"total":1`},
		} {
			if c.credential == "" {
				c.credential, c.path = strconv.FormatInt(w.user, 10), "/apiv1/me"+c.path
			}
			if got := n.call(c.credential, c.method, c.path, c.body); got.status != c.status || !strings.Contains(got.body, c.contains) {
				t.Errorf("%s: %s %s %s: %d %s", c.name, c.method, c.path, c.body, got.status, got.body)
			}
		}
		if got := w.count("SELECT COUNT(*) FROM issuances"); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, moment := range append([]string{"PENDING"}, moments()...) {
			t.Run(moment, func(t *testing.T) {
				w, _ := hostileWorld(t, db)
				n := w.quiet()
				certID := n.addCert("a.example.test")
				i := n.trigger(certID, "")
				path := fmt.Sprintf("/certificates/%d/issues/%d", certID, i.ID)
				cancel := func() {
					if got := n.do("DELETE", path, ""); got.status != http.StatusNoContent {
						t.Errorf("%d %s", got.status, got.body)
					}
				}
				if moment == "PENDING" {
					cancel()
				}
				n.reached = func(_ context.Context, step string) {
					if step == moment {
						cancel()
					}
				}
				if err := n.run(t.Context(), i.ID); err != nil {
					t.Error(err)
				}
				if i = n.issue(certID, i.ID); i.Status != StatusCancelled || i.CompletedAt == 0 {
					t.Errorf("%+v", i)
				}
				if n.issued(certID) || w.events(i.ID) != 0 {
					t.Error("a cancelled attempt had the effects of a success")
				}
				w.clean()
				if got := n.do("DELETE", path, ""); got.status != http.StatusConflict {
					t.Errorf("%d %s", got.status, got.body)
				}
				again := n.trigger(certID, "")
				if again.IssueAttemptNumber != 2 {
					t.Errorf("%+v", again)
				}
				path = fmt.Sprintf("/certificates/%d/issues/%d", certID, again.ID)
				cancel()
			})
		}
	})
}

// TestIssueAndDeleteAtOnce: neither waits for PostgreSQL to find a deadlock,
// which takes it a second.
func TestIssueAndDeleteAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _ := hostileWorld(t, db)
		n := w.quiet()
		for range 16 {
			certID := n.addCert("a.example.test")
			path := fmt.Sprintf("/certificates/%d", certID)
			answers := make(chan answer, 4)
			for range 3 {
				go func() { answers <- n.do("POST", path+"/issues", `{"force":true}`) }()
			}
			go func() { answers <- n.do("DELETE", path, "") }()
			for range 4 {
				if a := <-answers; a.status >= http.StatusInternalServerError {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		}
		if db.Dialect() == sqldb.Postgres {
			if found := w.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); found > 0 {
				t.Errorf("%d deadlocks", found)
			}
		}
	})
}

func TestFiftyTriggersPlaceOneOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		nodes := []*node{w.start()}
		if db.Dialect() == sqldb.Postgres {
			nodes = append(nodes, w.start())
		}
		certID := nodes[0].addCert("a.example.test", "b.example.test")
		path := fmt.Sprintf("/certificates/%d/issues", certID)
		ca.Always(hostile.NewOrder, hostile.Busy(0)) // no attempt is over before the last trigger has come
		hold := make(chan struct{})
		answers := make(chan answer, 50)
		for k := range 50 {
			go func() {
				<-hold
				answers <- nodes[k%len(nodes)].do("POST", path, "")
			}()
		}
		close(hold)
		created := 0
		var i Issuance
		for range 50 {
			a := <-answers
			a.data(t, &i)
			if a.status == http.StatusCreated {
				created++
			}
		}
		ca.Always(hostile.NewOrder, nil)
		w.done(nodes[0], ca, nodes[0].ended(i))
		if got := w.count("SELECT COUNT(*) FROM issuances"); got != created || ca.Orders() != created || created != 1 {
			t.Errorf("%d rows, %d orders, %d created; want one", got, ca.Orders(), created)
		}
	})
}

func TestLimitOnOrders(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca := hostileWorld(t, db)
		n := w.quiet()
		certID, twin, other := n.addCert("a.example.test", "b.example.test"), n.addCert("b.example.test", "a.example.test"), n.addCert("a.example.test")
		began := w.time()
		for k := range maxOrders {
			w.now = func() time.Time { return began.Add(time.Duration(k) * time.Hour) }
			if err := n.run(t.Context(), n.trigger(certID, "").ID); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []int64{certID, twin} {
			got := n.do("POST", fmt.Sprintf("/certificates/%d/issues", id), "{}")
			after, _ := strconv.Atoi(got.header.Get("Retry-After"))
			if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, "5013") || after > 22*3600 || after < 22*3600-60 {
				t.Errorf("%d %s %v", got.status, got.body, got.header)
			}
		}
		n.trigger(other, "") // other names
		if err := n.run(t.Context(), n.trigger(twin, `{"force":true}`).ID); err != nil {
			t.Fatal(err)
		}
		if ca.Orders() != maxOrders+1 {
			t.Errorf("%d orders", ca.Orders())
		}
		w.now = func() time.Time { return began.Add(limitTime + 2*time.Hour + time.Minute) }
		n.trigger(certID, "")
		if got := n.do("POST", fmt.Sprintf("/certificates/%d/issues", twin), ""); got.status != http.StatusCreated {
			t.Errorf("two of three orders are in the window: %d %s", got.status, got.body)
		}
	})
}

func TestChallenges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, _ := hostileWorld(t, db)
		n := w.quiet()
		ids := []int64{n.trigger(n.addCert("a.example.test"), "").ID, n.trigger(n.addCert("b.example.test"), "").ID}
		for k, name := range []string{"a.example.test", "b.example.test"} { // the same token, of two authorities
			err := New(db.Writer()).putChallenge(t.Context(), putChallengeParams{Token: "shared_token_123", IssuanceID: ids[k], Name: name, KeyAuthorization: "shared_token_123." + name})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			method, host, path string
			status             int
			body               string
		}{
			{"GET", "a.example.test", "/.well-known/acme-challenge/shared_token_123", 200, "shared_token_123.a.example.test"},
			{"GET", "B.EXAMPLE.TEST.:5002", "/.well-known/acme-challenge/shared_token_123", 200, "shared_token_123.b.example.test"},
			{"GET", "[::1]:80", "/.well-known/acme-challenge/shared_token_123", 200, "shared_token_123.a.example.test"},
			{"GET", "a.example.test", "/.well-known/acme-challenge/unknown", 404, ""},
			{"GET", "a.example.test", "/.well-known/acme-challenge/", 404, ""},
			{"GET", "a.example.test", "/.well-known/acme-challenge/shared_token_123/..", 404, ""},
			{"GET", "a.example.test", "/.well-known/acme-challenge/" + strings.Repeat("a", 300), 404, ""},
			{"GET", "a.example.test", "/health", 404, ""},
			{"GET", "a.example.test", "/", 404, ""},
			{"POST", "a.example.test", "/.well-known/acme-challenge/shared_token_123", 405, ""},
		} {
			for name, h := range map[string]http.Handler{"own listener": n.Challenges(), "main listener": n.mux} {
				r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
				r.Host = c.host
				recorder := httptest.NewRecorder()
				h.ServeHTTP(recorder, r)
				if recorder.Code != c.status || c.body != "" && recorder.Body.String() != c.body {
					t.Errorf("%s: %s %s at %s: %d %s", name, c.method, c.path, c.host, recorder.Code, recorder.Body)
				}
			}
		}
	})
}
