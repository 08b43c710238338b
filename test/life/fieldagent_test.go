package life_test

import (
	"fmt"
	"slices"
	"testing"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// fieldAgent follows the wire rules of an agent that is installed somewhere and
// is never updated: it stores the cursor before it handles a batch, drops the
// rest of a batch when one signal fails, ignores configurations that are not
// newer than its own, and keeps all it knows over a new registration.
type fieldAgent struct {
	*apptest.Device
	cursor    string
	version   int64
	items     []fieldItem
	installed map[int64]string // certificate → serial number
	interval  string           // X-Poll-Interval of the last answer
	dropped   []string         // signals that failed
}

type fieldItem struct {
	Type   string
	ObType string `json:"ob_type"`
	ObID   int64  `json:"ob_id"`
	To     []string
}

// poll asks once; status is that of the updates.
func (a *fieldAgent) poll() (status int) {
	a.P.T.Helper()
	path := "/apiv1/devices/self/updates?limit=10"
	if a.cursor != "" {
		path += "&cursor=" + a.cursor
	}
	answer := a.Try("GET", path, nil)
	a.interval = answer.Header.Get("X-Poll-Interval")
	switch answer.Status {
	case 200:
		var news apptest.Updates
		answer.Data(a.P.T, &news)
		a.cursor = news.Cursor
		for i, s := range news.Signals {
			if !a.follow(s.Type, s.Ref) {
				a.dropped = append(a.dropped, fmt.Sprintf("%s %v and %d behind it", s.Type, s.Ref, len(news.Signals)-i-1))
				break
			}
		}
	case 409: // 40901: everything from the beginning
		a.cursor, a.version, a.items = "", 0, nil
		a.configure()
	}
	return answer.Status
}

// drain polls until nothing is new.
func (a *fieldAgent) drain() {
	a.P.T.Helper()
	for range 200 {
		if a.poll() == 204 {
			return
		}
	}
	a.P.T.Fatal("the stream never ends")
}

// follow handles one signal and tells whether that went well.
func (a *fieldAgent) follow(kind string, ref map[string]any) bool {
	a.P.T.Helper()
	switch kind {
	case "install.updated":
		if int64(ref["version"].(float64)) <= a.version {
			return true // nothing new, it thinks
		}
		return a.configure()
	case "cert.updated":
		cert := int64(ref["cert_id"].(float64))
		named := slices.ContainsFunc(a.items, func(i fieldItem) bool { return i.ObType == "cert" && i.ObID == cert })
		// It looks at the materials whether an item names them or not.
		return a.fetch(cert, named)
	}
	return true
}

// configure fetches the configuration and carries it out.
func (a *fieldAgent) configure() bool {
	a.P.T.Helper()
	var config struct {
		Version  int64
		Installs []fieldItem
	}
	a.Do("GET", "/apiv1/devices/self/install-config", nil, 200).Data(a.P.T, &config)
	a.version, a.items = config.Version, config.Installs
	for _, i := range a.items {
		if i.Type == "exec" && (i.ObType == "" || i.ObID == 0) || i.ObType == "cert" && !a.fetch(i.ObID, true) {
			return false
		}
	}
	return true
}

// fetch gets the certificate and its key, and installs them if wanted.
func (a *fieldAgent) fetch(cert int64, install bool) bool {
	a.P.T.Helper()
	path := fmt.Sprintf("/apiv1/devices/self/certificates/%d", cert)
	got := a.Try("GET", path, nil)
	if got.Status != 200 || a.Try("GET", path+"/deploy-materials", nil).Status != 200 {
		return false
	}
	if install {
		var r apptest.Record
		got.Data(a.P.T, &r)
		a.installed[cert] = r.SerialNumber
	}
	return true
}

// What a review of agents in the field found, played again: an agent that comes
// from another server or another registration, or that a signal sends where it
// gets nothing, installs every renewal at its next polls.
func TestAgentInTheField(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := apptest.StartWithCA(t, db, acmetest.Options{})
		me := p.Person("me@example.org")
		account := me.Account(pebble)
		cert := me.Certificate(account, "a.example.test")
		a := &fieldAgent{Device: me.Enrol(apptest.PublicID(1)), installed: map[int64]string{}}
		assign := func(cert int64, want int) {
			me.Do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", a.ID), map[string]any{"cert_id": cert}, want)
		}
		configure := func() {
			item := map[string]any{"id": "web", "type": "copy", "ob_type": "cert", "ob_id": cert, "from": []any{"fullchain.pem"}, "to": []any{"/a.pem"}}
			me.Do("PUT", fmt.Sprintf("/apiv1/me/devices/%d/install-config", a.ID), map[string]any{"installs": []any{item}}, 200)
		}
		serial := func() string {
			var r apptest.Record
			me.Do("GET", fmt.Sprintf("/apiv1/me/certificates/%d", cert), nil, 200).Data(t, &r)
			return r.SerialNumber
		}
		current := func(when string) {
			t.Helper()
			if a.installed[cert] != serial() || len(a.dropped) > 0 {
				t.Fatalf("%s: serial %q is installed, %q issued; dropped: %q", when, a.installed[cert], serial(), a.dropped)
			}
		}
		anew := func() { // the device is deleted and registered again, while the agent does not poll
			me.Do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d", a.ID), nil, 204)
			a.Device = me.Enrol(apptest.PublicID(1))
			a.installed = map[int64]string{}
			assign(cert, 204)
			configure()
		}

		assign(cert, 204)
		me.Issue(cert)
		for range 4 {
			configure()
		}
		a.drain()
		current("at first")

		anew()
		if status := a.poll(); status != 409 {
			t.Errorf("a cursor of the former registration: %d", status)
		}
		a.drain()
		current("after another registration")

		version := a.version
		anew() // and the agent has lost its cursor, but not its configuration
		a.cursor, a.version = "", version
		a.drain()
		current("after a registration without a cursor")

		for _, cursor := range []string{"1763012345678-0", "01JF3Z8Q"} { // of another server, and damaged
			a.cursor, a.version, a.installed = cursor, 37, map[int64]string{}
			if status := a.poll(); status != 409 {
				t.Errorf("cursor %s: %d", cursor, status)
			}
			a.drain()
			current("with the cursor " + cursor)
		}

		// Certificates that the device cannot have stand before the renewal.
		assign(me.Certificate(account, "new.example.test"), 204)
		kept := me.Certificate(account, "kept.example.test")
		me.Do("PUT", fmt.Sprintf("/apiv1/me/certificates/%d", kept), map[string]any{"action": "update", "policy": "MASTER_ONLY"}, 200)
		assign(kept, 204)
		strict := me.Certificate(account, "strict.example.test")
		me.Do("PUT", fmt.Sprintf("/apiv1/me/certificates/%d", strict), map[string]any{"action": "update", "policy": "DEVICE_REQUIRED"}, 200)
		me.Issue(kept)
		me.Issue(strict)
		assign(strict, 200) // later: {"wrap_ready":false}
		me.Issue(cert)
		a.drain()
		current("behind certificates that the device cannot have")

		for range 25 {
			configure()
		}
		a.poll()
		if a.interval != "1" {
			t.Errorf("a part of a backlog asks for the next one after %s s", a.interval)
		}
		a.drain()
		current("after a backlog")
	})
}
