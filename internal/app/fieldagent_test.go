package app_test

import (
	"fmt"
	"slices"
	"testing"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/sqldb"
)

// fieldAgent follows the wire rules of an agent that is installed somewhere and
// is never updated: it stores the cursor before it handles a batch, drops the
// rest of a batch when one signal fails, ignores configurations that are not
// newer than its own, and keeps all it knows over a new registration.
type fieldAgent struct {
	*device
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
	a.p.t.Helper()
	path := "/apiv1/devices/self/updates?limit=10"
	if a.cursor != "" {
		path += "&cursor=" + a.cursor
	}
	answer := a.try("GET", path, nil)
	a.interval = answer.header.Get("X-Poll-Interval")
	switch answer.status {
	case 200:
		var news updates
		answer.data(a.p.t, &news)
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
	return answer.status
}

// drain polls until nothing is new.
func (a *fieldAgent) drain() {
	a.p.t.Helper()
	for range 200 {
		if a.poll() == 204 {
			return
		}
	}
	a.p.t.Fatal("the stream never ends")
}

// follow handles one signal and tells whether that went well.
func (a *fieldAgent) follow(kind string, ref map[string]any) bool {
	a.p.t.Helper()
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
	a.p.t.Helper()
	var config struct {
		Version  int64
		Installs []fieldItem
	}
	a.do("GET", "/apiv1/devices/self/install-config", nil, 200).data(a.p.t, &config)
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
	a.p.t.Helper()
	path := fmt.Sprintf("/apiv1/devices/self/certificates/%d", cert)
	got := a.try("GET", path, nil)
	if got.status != 200 || a.try("GET", path+"/deploy-materials", nil).status != 200 {
		return false
	}
	if install {
		var r record
		got.data(a.p.t, &r)
		a.installed[cert] = r.SerialNumber
	}
	return true
}

// What a review of agents in the field found, played again: an agent that comes
// from another server or another registration, or that a signal sends where it
// gets nothing, installs every renewal at its next polls.
func TestAgentInTheField(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := startWithCA(t, db, acmetest.Options{})
		me := p.person("me@example.org")
		account := me.account(pebble)
		cert := me.certificate(account, "a.example.test")
		a := &fieldAgent{device: me.enrol(publicID(1)), installed: map[int64]string{}}
		assign := func(cert int64, want int) {
			me.do("POST", fmt.Sprintf("/apiv1/me/devices/%d/certificates", a.ID), map[string]any{"cert_id": cert}, want)
		}
		configure := func() {
			item := map[string]any{"id": "web", "type": "copy", "ob_type": "cert", "ob_id": cert, "from": []any{"fullchain.pem"}, "to": []any{"/a.pem"}}
			me.do("PUT", fmt.Sprintf("/apiv1/me/devices/%d/install-config", a.ID), map[string]any{"installs": []any{item}}, 200)
		}
		serial := func() string {
			var r record
			me.do("GET", fmt.Sprintf("/apiv1/me/certificates/%d", cert), nil, 200).data(t, &r)
			return r.SerialNumber
		}
		current := func(when string) {
			t.Helper()
			if a.installed[cert] != serial() || len(a.dropped) > 0 {
				t.Fatalf("%s: serial %q is installed, %q issued; dropped: %q", when, a.installed[cert], serial(), a.dropped)
			}
		}
		anew := func() { // the device is deleted and registered again, while the agent does not poll
			me.do("DELETE", fmt.Sprintf("/apiv1/me/devices/%d", a.ID), nil, 204)
			a.device = me.enrol(publicID(1))
			a.installed = map[int64]string{}
			assign(cert, 204)
			configure()
		}

		assign(cert, 204)
		me.issue(cert)
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
		assign(me.certificate(account, "new.example.test"), 204)
		kept := me.certificate(account, "kept.example.test")
		me.do("PUT", fmt.Sprintf("/apiv1/me/certificates/%d", kept), map[string]any{"action": "update", "policy": "MASTER_ONLY"}, 200)
		assign(kept, 204)
		strict := me.certificate(account, "strict.example.test")
		me.do("PUT", fmt.Sprintf("/apiv1/me/certificates/%d", strict), map[string]any{"action": "update", "policy": "DEVICE_REQUIRED"}, 200)
		me.issue(kept)
		me.issue(strict)
		assign(strict, 200) // later: {"wrap_ready":false}
		me.issue(cert)
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
