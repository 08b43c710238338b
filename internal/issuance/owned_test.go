package issuance

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// neighbour is a user of the world with an account at its CA.
type neighbour struct {
	n       *node
	id      int64
	account int64
}

func (n *node) neighbour(directoryURL, roots string) *neighbour {
	n.w.t.Helper()
	who := &neighbour{n: n, id: n.w.addUser(fmt.Sprintf("t%d@example.com", time.Now().UnixNano()))}
	body, _ := json.Marshal(map[string]any{"name": "own", "email": "", "provider": "custom", "directory_url": directoryURL, "ca_bundle_pem": roots})
	var account struct{ ID int64 }
	who.do("POST", "/acme-accounts", string(body)).data(n.w.t, &account)
	who.account = account.ID
	return who
}

func (who *neighbour) do(method, path, body string) answer {
	who.n.w.t.Helper()
	return who.n.call(strconv.FormatInt(who.id, 10), method, "/apiv1/me"+path, body)
}

// create asks for a certificate record.
func (who *neighbour) create(list ...string) answer {
	who.n.w.t.Helper()
	body, _ := json.Marshal(map[string]any{"action": "create", "domain_name": list[0], "sans": list, "acct_id": who.account})
	return who.do("POST", "/certificates", string(body))
}

// cert creates one and gives its id.
func (who *neighbour) cert(list ...string) int64 {
	who.n.w.t.Helper()
	var made struct{ ID int64 }
	who.create(list...).data(who.n.w.t, &made)
	return made.ID
}

// order issues a certificate and waits for the end of the attempt.
func (who *neighbour) order(certID int64) Issuance {
	who.n.w.t.Helper()
	var i Issuance
	who.do("POST", fmt.Sprintf("/certificates/%d/issues", certID), `{"force":true}`).data(who.n.w.t, &i)
	eventually(who.n.w.t, func() bool {
		who.do("GET", fmt.Sprintf("/certificates/%d/issues/%d", certID, i.ID), "").data(who.n.w.t, &i)
		return !open(i.Status)
	}, func() string { return fmt.Sprintf("%+v", i) })
	return i
}

func (a answer) refused(t testing.TB, key string) {
	t.Helper()
	if a.status != http.StatusConflict || !strings.Contains(a.body, `"key":"`+key+`"`) {
		t.Errorf("%d %s, want 409 %s", a.status, a.body, key)
	}
}

// The finding C1: a user orders a name of another user, and of the server
// itself, with an account of their own at the same CA. Every way to an order
// asks whose the name is.
func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca, front := pebble(t, db, acmetest.Options{})
		w.claims = []string{ca.DirectoryURL}
		n := w.start()
		front.use(n)
		victim, attacker := n.neighbour(ca.DirectoryURL, ca.CABundlePEM), n.neighbour(ca.DirectoryURL, ca.CABundlePEM)
		early := attacker.cert("www.victim.test") // made while the name is free
		other := attacker.cert("own.attacker.test")
		renewing := attacker.cert("x.attacker.test")
		for _, id := range []int64{other, renewing} {
			if i := attacker.order(id); i.Status != StatusSuccess {
				t.Fatalf("%+v", i)
			}
		}
		victims := victim.cert("www.victim.test")
		if i := victim.order(victims); i.Status != StatusSuccess {
			t.Fatalf("%+v", i)
		}
		for way, try := range map[string]func() answer{
			"create":             func() answer { return attacker.create("www.victim.test") },
			"create, below":      func() answer { return attacker.create("mine.test", "a.b.victim.test") },
			"create, the domain": func() answer { return attacker.create("VICTIM.test.") },
			"create, wildcard":   func() answer { return attacker.create("*.victim.test") },
			"csr": func() answer {
				return attacker.do("POST", "/certificates", csrBody(t, attacker.account, "www.victim.test"))
			},
			"the server's host": func() answer { return attacker.create("certs.example.net") },
			"update": func() answer {
				return attacker.do("PUT", fmt.Sprintf("/certificates/%d", other), `{"sans":["www.victim.test"]}`)
			},
			"start": func() answer {
				return attacker.do("POST", fmt.Sprintf("/certificates/%d/issues", early), `{"force":true}`)
			},
			"rekey": func() answer { return attacker.do("PUT", fmt.Sprintf("/certificates/%d", early), `{"action":"rekey"}`) },
		} {
			t.Log(way)
			try().refused(t, names.KeyTaken)
		}

		// The name of a certificate changes hands before it renews.
		w.exec("UPDATE name_claims SET user_id = $1 WHERE name = 'attacker.test'", victim.id)
		w.exec("UPDATE certificates SET next_renewal_at = 1 WHERE id = $1", renewing)
		eventually(t, func() bool {
			return w.count("SELECT COUNT(*) FROM certificates WHERE id = $1 AND next_renewal_at = 0 AND renewal_blocked LIKE '%belongs to another user%'", renewing) == 1
		}, func() string { return "the renewal goes on" })
		if got := w.count("SELECT COUNT(*) FROM issuances WHERE cert_id = $1", renewing); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
		if a := victim.do("GET", fmt.Sprintf("/certificates/%d", victims), ""); !strings.Contains(a.body, `"renewal_blocked":""`) {
			t.Errorf("%s", a.body)
		}
	})
}

// A name that changes hands while another user's attempt is at any of its steps
// ends that attempt: no answer is published, and no order finalised, after it.
func TestNamesThatChangeHandsMidway(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ca, front := pebble(t, db, acmetest.Options{})
		w.claims = []string{ca.DirectoryURL}
		for k, at := range []string{stepOrder, stepAuthorize, "save " + stepAuthorize, stepValidate, "save " + stepValidate, stepFinalize} {
			n := w.quiet()
			front.use(n)
			victim, attacker := n.neighbour(ca.DirectoryURL, ca.CABundlePEM), n.neighbour(ca.DirectoryURL, ca.CABundlePEM)
			domain := fmt.Sprintf("step%d.test", k)
			certID := attacker.cert("www." + domain)
			var i Issuance
			attacker.do("POST", fmt.Sprintf("/certificates/%d/issues", certID), "").data(t, &i)
			published := -1
			n.reached = func(_ context.Context, step string) {
				if step == at && published < 0 {
					w.exec("DELETE FROM name_claims WHERE name = $1", domain)
					w.exec(`INSERT INTO name_claims (user_id, name, domain, state, proof, taken_from, held_at, lost_at, checked_at, next_check_at,
						absent_since, lapsed_at, freed_at, created_at) VALUES ($1, $2, $2, 'HELD', 'txt', 0, 1, 0, 0, 0, 0, 0, 0, 1)`, victim.id, domain)
					published = w.count("SELECT COUNT(*) FROM http01_challenges")
				}
			}
			for range 10 {
				_ = n.run(t.Context(), i.ID)
				attacker.do("GET", fmt.Sprintf("/certificates/%d/issues/%d", certID, i.ID), "").data(t, &i)
				if !open(i.Status) {
					break
				}
			}
			if i.Status != StatusFailed || !strings.Contains(i.ErrorMessage, "belongs to another user") {
				t.Errorf("at %s: %+v", at, i)
			}
			if at == stepAuthorize && published != 0 || at == stepFinalize && published != 1 {
				t.Errorf("at %s: %d answers were published before", at, published)
			}
			if got := w.count("SELECT COUNT(*) FROM http01_challenges"); got != 0 {
				t.Errorf("at %s: %d answers are left", at, got)
			}
			if got := w.count("SELECT COUNT(*) FROM certificates WHERE id = $1 AND not_after > 0", certID); got != 0 {
				t.Errorf("at %s: the certificate was stored", at)
			}
		}
	})
}

// Where a proxy passes on another name, a token is answered, but not for a name
// that another user holds.
func TestAnswersForAnotherHost(t *testing.T) {
	t.Parallel()
	w, ca := hostileWorld(t, dbtest.SQLite(t))
	n := w.quiet()
	certID := n.addCert("a.example.test")
	i := n.trigger(certID, "")
	w.exec(`INSERT INTO http01_challenges (token, issuance_id, name, key_authorization, challenge_url, authorization_url) VALUES ('tok', $1, 'a.example.test', 'tok.x', '', '')`, i.ID)
	victim := n.neighbour(ca.DirectoryURL, ca.CABundlePEM)
	w.exec(`INSERT INTO name_claims (user_id, name, domain, state, proof, taken_from, held_at, lost_at, checked_at, next_check_at,
		absent_since, lapsed_at, freed_at, created_at) VALUES ($1, 'victim.test', 'victim.test', 'HELD', 'txt', 0, 1, 0, 0, 0, 0, 0, 0, 1)`, victim.id)
	for host, want := range map[string]int{"a.example.test": 200, "inner": 200, "10.0.0.5:8080": 200, "upstream.internal": 200, "www.victim.test": 404, "WWW.victim.test.:80": 404} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://x/.well-known/acme-challenge/tok", nil)
		r.Host = host
		recorder := httptest.NewRecorder()
		n.Challenges().ServeHTTP(recorder, r)
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", host, recorder.Code, want)
		}
	}
}

// Where names are to be proved, one that is not is answered for nobody, by
// whatever token; a proxy's inner name still is.
func TestAnswersForUnprovedHosts(t *testing.T) {
	t.Parallel()
	w, _ := hostileWorld(t, dbtest.SQLite(t))
	n := w.quiet()
	i := n.trigger(n.addCert("a.example.com"), "")
	w.exec(`INSERT INTO http01_challenges (token, issuance_id, name, key_authorization, challenge_url, authorization_url) VALUES ('tok', $1, 'a.example.com', 'tok.x', '', '')`, i.ID)
	w.proved = true
	n = w.quiet()
	for host, want := range map[string]int{"a.example.com": 200, "upstream.internal": 200, "10.0.0.5": 200, "www.victim.org": 404} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://x/.well-known/acme-challenge/tok", nil)
		r.Host = host
		recorder := httptest.NewRecorder()
		n.Challenges().ServeHTTP(recorder, r)
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", host, recorder.Code, want)
		}
	}
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	err := w.db.InTx(context.WithoutCancel(w.t.Context()), func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(context.WithoutCancel(w.t.Context()), query, args...)
		return err
	})
	if err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}

func csrBody(t testing.TB, account int64, name string) string {
	t.Helper()
	key, err := certs.GenerateKey(certs.AlgorithmECDSA)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := certs.CreateCSR(key, certs.Names{Domain: name}, certs.Subject{})
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})
	body, err := json.Marshal(map[string]any{"action": "csr", "csr_pem": string(text), "acct_id": account})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
