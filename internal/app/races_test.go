package app_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest/hostile"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// arena is a few objects on which many callers do everything at once.
type arena struct {
	*program
	me, other *caller
	account   int64

	mu      sync.Mutex
	certs   []int64
	devices []*device
	hooks   []int64
	codes   map[string]int // answers by operation and status
}

func (a *arena) pick(r *rand.Rand) (cert int64, d *device, hook int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.certs[r.IntN(len(a.certs))], a.devices[r.IntN(len(a.devices))], a.hooks[r.IntN(len(a.hooks))]
}

// ask sends a request whose answer may be anything but a failure of ours.
func (a *arena) ask(who *caller, name, method, path string, body any) *answer {
	got := who.try(method, path, body)
	if got.status >= 500 {
		a.t.Errorf("%s: %d %s", name, got.status, got.body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.codes[fmt.Sprintf("%s %d", name, got.status)]++
	return got
}

// replace puts what was made in the place of one of the list, which is deleted
// by now.
func replace[T comparable](a *arena, list []T, old, fresh T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(list, old); i >= 0 {
		list[i] = fresh
	}
}

// act does one thing at random.
func (a *arena) act(r *rand.Rand, number string) {
	cert, d, hook := a.pick(r)
	path := fmt.Sprintf("/apiv1/me/certificates/%d", cert)
	assigned := fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID)
	webhook := fmt.Sprintf("/apiv1/me/service_webhooks/%d", hook)
	switch r.IntN(17) {
	case 0, 1:
		a.ask(a.me, "issue", "POST", path+"/issues", map[string]any{"force": true})
	case 2:
		var all []issue
		if got := a.ask(a.me, "history", "GET", path+"/issues", nil); got.status == 200 {
			if got.data(a.t, &all); len(all) > 0 {
				a.ask(a.me, "cancel", "DELETE", fmt.Sprintf("%s/issues/%d", path, all[0].ID), nil)
			}
		}
	case 3, 4:
		a.ask(a.me, "assign", "POST", assigned, map[string]any{"cert_id": cert})
	case 5:
		a.ask(a.me, "unassign", "DELETE", fmt.Sprintf("%s/%d", assigned, cert), nil)
	case 6:
		a.ask(a.me, "update", "PUT", path, map[string]any{"sans": []string{number + ".example.test"}})
	case 7:
		a.ask(a.me, "policy", "PUT", path, map[string]any{"policy": []string{"HYBRID", "DEVICE_REQUIRED"}[r.IntN(2)]})
	case 8:
		a.ask(a.me, "rekey", "PUT", path, map[string]any{"action": "rekey"})
	case 9:
		a.ask(a.me, "revoke", "PUT", path, map[string]any{"action": "revoke"})
	case 10:
		a.ask(a.me, "export", "GET", path+"/export?format=zip", nil)
	case 11:
		if r.IntN(3) == 0 && a.ask(a.me, "delete certificate", "DELETE", path, nil).status == 204 {
			replace(a, a.certs, cert, a.me.certificate(a.account, number+".example.test"))
		}
	case 12:
		if r.IntN(5) == 0 && a.ask(a.me, "delete device", "DELETE", fmt.Sprintf("/apiv1/me/devices/%d", d.ID), nil).status == 204 {
			replace(a, a.devices, d, a.me.enrol(d.PublicID))
		}
	case 13:
		a.ask(d.caller, "poll", "GET", "/apiv1/devices/self/updates?cursor=0-0&limit=100", nil)
		a.ask(d.caller, "materials", "GET", fmt.Sprintf("/apiv1/devices/self/certificates/%d/deploy-materials", cert), nil)
	case 14:
		a.ask(a.me, "install-config", "PUT", fmt.Sprintf("/apiv1/me/devices/%d/install-config", d.ID), map[string]any{"installs": []any{}})
		a.ask(a.me, "account", "PUT", fmt.Sprintf("/apiv1/me/acme-accounts/%d", a.account), map[string]any{"email": number + "@example.org"})
	case 15:
		a.ask(a.me, "test webhook", "POST", webhook+"/test", nil)
	case 16:
		if a.ask(a.me, "delete webhook", "DELETE", webhook, nil).status == 204 {
			replace(a, a.hooks, hook, a.me.webhook())
		}
	}
	a.ask(a.other, "stranger", "DELETE", path, nil)
}

// webhook makes one that nobody answers.
func (c *caller) webhook() int64 {
	c.p.t.Helper()
	var made struct{ ID int64 }
	c.do("POST", "/apiv1/me/service_webhooks", map[string]any{"url": "http://127.0.0.1:1/", "secret": hookSecret}, 201).data(c.p.t, &made)
	return made.ID
}

// Everything at once on the same few objects: no answer is a failure, nothing
// is left open, nobody else's deletions count, and what is assigned and issued
// in the end can be installed.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, config sqldb.Config) {
		ca := hostile.Start(t)
		a := &arena{program: start(t, settings(t, config), app.Options{}, nil), codes: map[string]int{}}
		a.me, a.other = a.person("me@example.org"), a.person("other@example.org")
		var made struct{ ID int64 }
		a.me.do("POST", "/apiv1/me/acme-accounts", map[string]any{
			"name": "ca", "provider": "custom", "directory_url": ca.DirectoryURL, "ca_bundle_pem": ca.CABundlePEM,
		}, 201).data(t, &made)
		a.account = made.ID
		for i := range 3 {
			a.certs = append(a.certs, a.me.certificate(a.account, fmt.Sprintf("start%d.example.test", i)))
			a.devices = append(a.devices, a.me.enrol(publicID(i)))
			a.hooks = append(a.hooks, a.me.webhook())
		}
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(worker)))
				for n := range 60 {
					a.act(r, fmt.Sprintf("w%d-%d", worker, n))
				}
			})
		}
		group.Wait()
		a.quiet(t)
		for _, cert := range a.certs {
			for _, d := range a.devices {
				assigned := a.me.try("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), map[string]any{"cert_id": cert})
				if assigned.status != 204 && assigned.status != 200 { // 200: the device has to wait for the next key
					t.Errorf("assign: %d %s", assigned.status, assigned.body)
				}
			}
			var begun issue
			issues := fmt.Sprintf("/apiv1/me/certificates/%d/issues", cert)
			a.me.do("POST", issues, map[string]any{"force": true}, 201).data(t, &begun)
			a.quiet(t)
			if end := a.me.do("GET", fmt.Sprintf("%s/%d", issues, begun.ID), nil, 200); !strings.Contains(string(end.body), "SUCCESS") {
				t.Errorf("the last issue: %s", end.body)
			}
			for _, d := range a.devices {
				d.install(t, cert)
			}
		}
		if strings.Contains(a.log.String(), `"level":"ERROR"`) {
			t.Error("there are errors in the log")
		}
		a.verifyAudit()
		// A deadlock is broken and repeated, but costs a second.
		if config.URL != "" {
			var deadlocks int
			err := a.database().Reader().QueryRowContext(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks)
			if err != nil || deadlocks > 3 { // some pair is left, once in a dozen runs
				t.Errorf("%d deadlocks, %v", deadlocks, err)
			}
		}
	})
}

// quiet waits until nothing is under way any more.
func (a *arena) quiet(t *testing.T) {
	t.Helper()
	db, err := app.OpenDatabase(t.Context(), a.config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eventually(t, 60*time.Second, "all attempts end", func() bool {
		var n int
		if err := db.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM issuances WHERE status IN ('PENDING', 'PROCESSING')").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}
