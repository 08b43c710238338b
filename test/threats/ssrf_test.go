package threats_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// upstream is what others answer and nobody else may read.
const upstream = "UPSTREAM-TEXT-5f3a"

// ssrfWorld is a program that may call nothing special but 127.0.0.0/8 as an
// ACME directory, and a canary.
type ssrfWorld struct {
	*apptest.Program
	*apptest.Canary
	me      *apptest.Caller
	ca      *hostile.CA
	counter int
}

func newSSRFWorld(t *testing.T, allowed ...string) *ssrfWorld {
	t.Helper()
	c := apptest.Settings(t, dbtest.SQLiteConfig(t))
	c.Quota = []string{"acme-accounts=1000", "attempts-per-hour=1000"}
	c.ACMEAllowCIDRs, c.WebhookAllowCIDRs = allowed, nil
	w := &ssrfWorld{Canary: apptest.NewCanary(t), ca: hostile.Start(t)}
	w.Program = apptest.Start(t, c, app.Options{Lookup: apptest.EvilLookup}, nil)
	w.me = w.Person("me@example.org")
	return w
}

// account makes one at a directory and returns its path, or "" when it is
// refused.
func (w *ssrfWorld) account(directory string) (path string, id int64) {
	w.T.Helper()
	a := w.me.Try("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": "a", "email": "ops@example.org", "provider": "custom", "directory_url": directory, "ca_bundle_pem": w.ca.CABundlePEM,
	})
	w.judge("create account at "+directory, a)
	if a.Status == 400 {
		return "", 0
	}
	var made struct{ ID int64 }
	a.Data(w.T, &made)
	return fmt.Sprintf("/apiv1/me/acme-accounts/%d", made.ID), made.ID
}

// judge fails for an answer that is not a refusal or that tells too much.
func (w *ssrfWorld) judge(name string, a *apptest.Answer) {
	w.T.Helper()
	if a.Status == 500 || strings.Contains(string(a.Body), upstream) {
		w.T.Errorf("%s: %d %s", name, a.Status, a.Body)
	}
}

// trouble issues for a new certificate until something goes wrong, cancels, and
// returns what the history says.
func (w *ssrfWorld) trouble(name string, account int64) apptest.Issue {
	w.T.Helper()
	w.counter++
	path := fmt.Sprintf("/apiv1/me/certificates/%d/issues", w.me.Certificate(account, fmt.Sprintf("n%d.example.test", w.counter)))
	var now apptest.Issue
	w.me.Do("POST", path, nil, 201).Data(w.T, &now)
	path = fmt.Sprintf("%s/%d", path, now.ID)
	apptest.Eventually(w.T, 2*time.Minute, name+" fails", func() bool {
		a := w.me.Do("GET", path, nil, 200)
		w.judge(name, a)
		a.Data(w.T, &now)
		return now.Status != "PENDING" && now.Status != "PROCESSING" || strings.Contains(string(a.Body), "again in")
	})
	if now.Status != "SUCCESS" {
		w.me.Try("DELETE", path, nil)
	}
	return now
}

// Whoever names a directory reaches nothing inside with it: not at creation,
// not by registering, issuing or revoking.
func TestSSRFByDirectory(t *testing.T) {
	t.Parallel()
	w := newSSRFWorld(t)
	for i, host := range apptest.InsideHosts() {
		w.me = w.Person(fmt.Sprintf("inside-%d@example.org", i)) // registers count for each user
		_, other := w.account("https://acme.example/directory")
		for _, place := range []string{host + ":" + w.Port, host, "acme.example@" + host + ":" + w.Port} {
			directory := "https://" + place + "/directory"
			w.me.Try("PUT", fmt.Sprintf("/apiv1/me/acme-accounts/%d", other), map[string]any{"directory_url": directory})
			a := w.me.Try("PUT", fmt.Sprintf("/apiv1/me/acme-accounts/%d", other), map[string]any{"action": "register"})
			w.judge("register after an update", a)
			if a.Status < 400 {
				t.Errorf("%s: registered: %s", directory, a.Body)
			}
			path, id := w.account(directory)
			if path == "" {
				continue
			}
			a = w.me.Try("PUT", path, map[string]any{"action": "register"})
			w.judge("register "+directory, a)
			if a.Status < 400 {
				t.Errorf("%s: registered: %s", directory, a.Body)
			}
			if _, name := apptest.InsideNames[host]; !name && host != "127.0.0.1" || place == host {
				continue // registering has gone the same way already
			}
			if end := w.trouble(directory, id); end.Status == "SUCCESS" {
				t.Errorf("%s: %+v", directory, end)
			}
		}
	}
}

// unvisited are URLs that an issuance does not call; an account's is its name.
var unvisited = regexp.MustCompile("revoke|renewal|account location")

// An authority that may be called leads nowhere else with the URLs it gives.
func TestSSRFByAuthority(t *testing.T) {
	t.Parallel()
	w := newSSRFWorld(t, "127.0.0.0/8")
	for _, host := range []string{"127.0.0.1", "rebound.example"} {
		target := "https://" + net.JoinHostPort(host, w.Port) + "/"
		cases := map[string]func(){
			"challenge url": func() {
				w.ca.Next(hostile.Authorization, hostile.With(map[string]any{"challenges": []any{map[string]any{
					"type": "http-01", "status": "pending", "token": "0123456789abcdef0123", "url": target,
				}}}))
			},
			"account location": func() { w.ca.Next(hostile.NewAccount, hostile.Location(target)) },
			"order location":   func() { w.ca.Next(hostile.NewOrder, hostile.Location(target)) },
			"authorizations": func() {
				w.ca.Always(hostile.NewOrder, hostile.With(map[string]any{"authorizations": []string{target}}))
			},
			"finalize": func() {
				for _, step := range []hostile.Step{hostile.NewOrder, hostile.Order} {
					w.ca.Always(step, hostile.With(map[string]any{"finalize": target}))
				}
			},
			"certificate": func() {
				for _, step := range []hostile.Step{hostile.Finalize, hostile.Order} {
					w.ca.Always(step, hostile.With(map[string]any{"certificate": target}))
				}
			},
		}
		for _, member := range []string{"newNonce", "newAccount", "newOrder", "revokeCert", "renewalInfo"} {
			cases["directory "+member] = func() { w.ca.Always(hostile.Directory, hostile.With(map[string]any{member: target})) }
		}
		for _, step := range hostile.Steps() {
			cases["redirect of "+string(step)] = func() { w.ca.Always(step, hostile.Redirect(target)) }
		}
		for name, prepare := range cases {
			prepare()
			_, id := w.account(w.ca.DirectoryURL + "?" + strconv.Itoa(w.counter)) // nobody knows this directory yet
			end := w.trouble(name+" to "+target, id)
			if end.Status == "SUCCESS" && !unvisited.MatchString(name) {
				t.Errorf("%s: %s", name, end.Status)
			}
			for _, step := range hostile.Steps() {
				w.ca.Always(step, nil)
			}
		}
	}
}

// What an authority answers that is no problem document is repeated to nobody.
func TestUpstreamTextOfAuthorities(t *testing.T) {
	t.Parallel()
	w := newSSRFWorld(t, "127.0.0.0/8")
	for i, step := range []hostile.Step{hostile.Directory, hostile.NewNonce, hostile.NewAccount, hostile.NewOrder, hostile.Authorization, hostile.Challenge, hostile.Finalize, hostile.Certificate} {
		for _, answer := range []hostile.Answer{
			hostile.Status(403, upstream), hostile.Status(500, upstream), hostile.Body("text/html", upstream), hostile.Body("application/json", `{"`+upstream+`":`),
			hostile.Body("application/json", `{"type":"`+upstream+`","detail":"`+upstream+`"}`), hostile.Header("Location", "http://"+upstream),
			hostile.Body("application/pem-certificate-chain", "-----BEGIN CERTIFICATE-----\n"+upstream+"\n-----END CERTIFICATE-----\n"),
		} {
			w.ca.Always(step, answer)
			path, id := w.account(w.ca.DirectoryURL + "?" + strconv.Itoa(w.counter))
			w.judge("register", w.me.Try("PUT", path, map[string]any{"action": "register"}))
			if i > 2 {
				w.trouble("text of "+string(step), id)
			}
			w.ca.Always(step, nil)
		}
	}
}

// Webhooks reach nothing inside, whichever way they are made to call.
func TestSSRFByWebhook(t *testing.T) {
	t.Parallel()
	w := newSSRFWorld(t, "127.0.0.0/8")
	hook := func(url string) map[string]any { return map[string]any{"url": url, "secret": apptest.HookSecret} }
	var plain struct{ ID int64 }
	w.me.Do("POST", "/apiv1/me/service_webhooks", hook("https://hook.example/"), 201).Data(t, &plain)
	paths := []string{fmt.Sprintf("/apiv1/me/service_webhooks/%d", plain.ID)}
	for _, host := range apptest.InsideHosts() {
		for _, scheme := range []string{"http", "https"} {
			target := fmt.Sprintf("%s://%s:%s/", scheme, host, w.Port)
			w.judge("update", w.me.Try("PUT", paths[0], hook(target)))
			w.judge("test", w.me.Try("POST", paths[0]+"/test", nil))
			a := w.me.Try("POST", "/apiv1/me/service_webhooks", hook(target))
			w.judge("create", a)
			if a.Status != 201 {
				continue
			}
			var made struct{ ID int64 }
			a.Data(t, &made)
			paths = append(paths, fmt.Sprintf("/apiv1/me/service_webhooks/%d", made.ID))
			w.me.Do("POST", paths[len(paths)-1]+"/test", nil, 201)
		}
	}
	if len(paths) < 3 {
		t.Fatal("no webhook with a name was stored")
	}
	_, id := w.account(w.ca.DirectoryURL)
	if end := w.trouble("an issue", id); end.Status != "SUCCESS" {
		// trouble returns at the end of the issuance or at its first failure
		t.Fatalf("%+v", end)
	}
	for _, path := range paths {
		var deliveries []struct {
			Event     string
			Attempts  int
			LastError string `json:"last_error"`
		}
		apptest.Eventually(t, 2*time.Minute, path+" is tried", func() bool {
			w.me.Do("GET", path+"/deliveries", nil, 200).Data(t, &deliveries)
			for _, d := range deliveries {
				if d.Attempts == 0 {
					return false
				}
			}
			return true
		})
		events := map[string]int{}
		for _, d := range deliveries {
			events[d.Event]++
			if !strings.Contains(d.LastError, "not one this server may call") && !strings.Contains(d.LastError, "does not exist") {
				t.Errorf("%s: %+v", path, d)
			}
		}
		if path != paths[0] && len(events) != 2 {
			t.Errorf("%s: tried for %v", path, events)
		}
	}
}

// A receiver that may be called leads nowhere with a redirect, and its owner
// reads nothing of what it says but the status.
func TestWebhookRedirects(t *testing.T) {
	t.Parallel()
	target := apptest.NewCanary(t)
	p := apptest.Start(t, apptest.Settings(t, dbtest.SQLiteConfig(t)), app.Options{}, nil)
	me := p.Person("me@example.org")
	for _, status := range []int{301, 302, 303, 307, 308, 300, 305, 500, 200} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:"+target.Port+"/"+upstream)
			w.Header().Set("Retry-After", upstream)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(upstream))
		}))
		t.Cleanup(receiver.Close)
		var made struct{ ID int64 }
		me.Do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": receiver.URL, "secret": apptest.HookSecret}, 201).Data(t, &made)
		path := fmt.Sprintf("/apiv1/me/service_webhooks/%d", made.ID)
		me.Do("POST", path+"/test", nil, 201)
		apptest.Eventually(t, 2*time.Minute, "the test is over", func() bool {
			a := me.Do("GET", path+"/deliveries", nil, 200)
			if strings.Contains(string(a.Body), upstream) {
				t.Errorf("%d: %s", status, a.Body)
			}
			return !strings.Contains(string(a.Body), `"PENDING"`)
		})
	}
}
