package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
)

const (
	issuanceKills = 20
	atOnce        = 2                // issuances per round
	resumeWithin  = 45 * time.Second // well below the minutes after which the job engine by itself looks for jobs of the dead
)

// issuer is the scene: a server that is killed, its authority, its receiver.
type issuer struct {
	t      *testing.T
	data   string
	http01 string
	server *server
	me     caller
	ca     *frontCA
	hook   *receiver
	hookID int64

	victim    atomic.Pointer[server]
	moments   atomic.Int64 // that went by
	countdown atomic.Int64 // moments until the kill

	interrupted map[string]int // by step
	slowest     time.Duration  // from the start to the next request
}

// moment is called wherever the world outside sees the server at work.
func (i *issuer) moment() {
	i.moments.Add(1)
	if i.countdown.Add(-1) != 0 {
		return
	}
	if s := i.victim.Load(); s != nil {
		_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
	}
}

func (i *issuer) start() {
	i.t.Helper()
	i.server = serve(i.t, setup{data: i.data, args: []string{"--http01-listen", i.http01}})
	i.me = i.me.at(i.server)
	i.victim.Store(i.server)
}

// attempt is one issuance of one certificate that is ordered once.
type attempt struct {
	name  string
	cert  int64
	issue issueRow

	before     issueRow // as the killed server left it; id 0: it did not get that far
	unrecorded int      // kills before an order was recorded
	orders     int      // that the authority had when one was recorded
}

type issueRow struct {
	ID           int64
	Number       int64 `json:"issue_attempt_number"`
	Status       string
	Trigger      string
	OrderURL     string `json:"order_url"`
	ErrorMessage string `json:"error_message"`
	StartedAt    int64  `json:"started_at"`
	CompletedAt  int64  `json:"completed_at"`
	Log          []struct {
		At            int64
		Step, Message string
	}
}

func (r issueRow) over() bool {
	return r.Status != "" && r.Status != "PENDING" && r.Status != "PROCESSING"
}

// A server that is killed at any point of an issuance goes on where it was.
func TestKilledIssuancesGoOn(t *testing.T) {
	t.Parallel()
	i := &issuer{t: t, data: t.TempDir(), http01: freePort(t), interrupted: map[string]int{}}
	pebble := acmetest.Start(t, acmetest.Options{NonceRejectPercent: 15})
	i.ca = newFrontCA(t, pebble, i.moment)
	i.hook = newReceiver(t, i.moment)
	holdBack(t, pebble.HTTPListener, i.http01, i.moment)
	newUser(t, "me@example.org", "--data", i.data)
	i.start()
	i.me = i.server.login("me@example.org")
	var hook struct{ ID int64 }
	i.me.must("POST", "/apiv1/me/service_webhooks", map[string]any{"url": i.hook.URL, "secret": webhookSecret}, http.StatusCreated, &hook)
	i.hookID = hook.ID

	all := i.round(0, 0) // to see how many moments there are
	length := i.moments.Load()
	for kill := range int64(issuanceKills) {
		all = append(all, i.round(int(kill)+1, 1+(kill*length+rand.Int64N(length))/issuanceKills)...)
	}
	i.settled(all)
	i.server.stop()
	checkDatabase(t, filepath.Join(i.data, "certharbor.db"))
	t.Logf("taken up again, by step: %v; at most %s after the start", i.interrupted, i.slowest)
}

// round issues certificates with new accounts and kills the server after the
// given number of moments, 0: not at all.
func (i *issuer) round(number int, killAfter int64) []*attempt {
	i.t.Helper()
	var all []*attempt
	for n := range atOnce {
		all = append(all, i.prepare(fmt.Sprintf("r%d-%d.example.test", number, n)))
	}
	i.countdown.Store(killAfter)
	for _, a := range all {
		i.order(a)
	}
	if killAfter > 0 {
		i.killed(all)
	}
	if killAfter > 0 && number%2 == 0 { // and once more, soon after the start
		i.countdown.Store(1 + rand.Int64N(20))
		i.killed(all)
	}
	for _, a := range all {
		i.finish(a)
	}
	return all
}

// killed waits for the kill, starts the server again and sees that it goes on.
func (i *issuer) killed(all []*attempt) {
	i.t.Helper()
	i.untilKilled(all)
	work, requests := i.left(all), i.ca.begun.Load()
	i.start()
	if work {
		i.goesOn(requests)
	}
	for _, a := range all {
		i.again(a)
	}
}

// prepare makes an account and a certificate with it.
func (i *issuer) prepare(name string) *attempt {
	i.t.Helper()
	var account, cert struct{ ID int64 }
	i.me.must("POST", "/apiv1/me/acme-accounts", map[string]any{
		"name": name, "email": "ops@example.org", "provider": "custom", "directory_url": i.ca.directory(), "ca_bundle_pem": i.ca.bundle(),
	}, http.StatusCreated, &account)
	i.me.must("POST", "/apiv1/me/certificates", map[string]any{"action": "create", "acct_id": account.ID, "domain_name": name}, http.StatusCreated, &cert)
	return &attempt{name: name, cert: cert.ID}
}

func (a *attempt) path() string { return fmt.Sprintf("/apiv1/me/certificates/%d/issues", a.cert) }

// order starts the issuance; no answer is the kill.
func (i *issuer) order(a *attempt) {
	i.t.Helper()
	if err := i.me.call(i.t.Context(), "POST", a.path(), nil, http.StatusCreated, &a.issue); err != nil {
		<-i.server.exited
	}
}

// again places the order whose answer the kill swallowed. When it is there
// already, this is the same one.
func (i *issuer) again(a *attempt) {
	i.t.Helper()
	if a.issue.ID != 0 {
		return
	}
	i.me.must("POST", a.path(), nil, 0, &a.issue)
	if a.before.ID != 0 && a.issue.ID != a.before.ID {
		i.t.Errorf("%s: attempt %d was under way, and %d was begun beside it", a.name, a.before.ID, a.issue.ID)
	}
}

// untilKilled waits for the end of the server. When everything was done before
// the moment came, this is the moment.
func (i *issuer) untilKilled(all []*attempt) {
	i.t.Helper()
	defer i.countdown.Store(0) // the next server is not killed
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		select {
		case <-i.server.exited:
			return
		case <-deadline:
			i.t.Fatalf("neither killed nor done:\n%s", i.server.log)
		case <-tick.C:
		}
		done := true
		for _, a := range all {
			var now issueRow
			err := i.me.call(i.t.Context(), "GET", fmt.Sprintf("%s/%d", a.path(), a.issue.ID), nil, http.StatusOK, &now)
			done = done && err == nil && now.over() && i.hook.ids(a.issue.ID) > 0
		}
		if done {
			i.server.kill()
			return
		}
	}
}

// left reads from a copy of the database what the killed server left, and
// reports whether there is work that goes on at the authority.
func (i *issuer) left(all []*attempt) bool {
	i.t.Helper()
	db, err := sql.Open("sqlite", "file:"+copyDatabase(i.t, i.data, i.t.TempDir()))
	if err != nil {
		i.t.Fatal(err)
	}
	defer db.Close()
	work := false
	for _, a := range all {
		recorded := a.before.OrderURL
		err := db.QueryRowContext(i.t.Context(), "SELECT id, status, order_url FROM issuances WHERE cert_id = $1", a.cert).Scan(&a.before.ID, &a.before.Status, &a.before.OrderURL)
		if err != nil && err != sql.ErrNoRows {
			i.t.Fatal(err)
		}
		work = work || err == nil && !a.before.over()
		if a.issue.ID != 0 && a.before.ID != a.issue.ID {
			i.t.Errorf("%s: the acknowledged issuance %d is %d after the kill", a.name, a.issue.ID, a.before.ID)
		}
		orders, _ := i.ca.of(a.name)
		switch {
		case recorded != "" && recorded != a.before.OrderURL:
			i.t.Errorf("%s: order %s was recorded, now it is %q", a.name, recorded, a.before.OrderURL)
		case a.before.OrderURL == "":
			a.unrecorded++
		case !slices.Contains(orders, a.before.OrderURL):
			i.t.Errorf("%s: recorded order %s, the authority made %v", a.name, a.before.OrderURL, orders)
		case recorded == "":
			a.orders = len(orders)
		}
	}
	return work
}

// goesOn sees that the work is taken up in time.
func (i *issuer) goesOn(requests int64) {
	i.t.Helper()
	begun := time.Now()
	eventually(i.t, "the issuance goes on", func() bool { return i.ca.begun.Load() > requests })
	took := time.Since(begun)
	i.slowest = max(i.slowest, took)
	if took > resumeWithin {
		i.t.Errorf("the issuance went on %s after the start", took)
	}
}
