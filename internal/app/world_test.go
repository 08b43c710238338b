package app_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
)

// world is a running server with two people who own one object of each kind.
type world struct {
	*program
	operations []*operation
	alice, bob *resident
}

// resident is a person with a device and the ids of all that they own, by the
// name of the path parameter.
type resident struct {
	*caller
	device *device
	ids    map[string]string
}

func newWorld(t *testing.T, db sqldb.Config) *world {
	t.Helper()
	p := start(t, settings(t, db), app.Options{}, nil)
	w := &world{program: p, operations: operations(t, p)}
	w.alice = w.settle("alice@example.org", publicID(0xa))
	w.bob = w.settle("bob@example.org", publicID(0xb))
	return w
}

// steps make one object of each kind, where the route that makes it is there.
var steps = []struct {
	line  string
	body  func(r *resident) any
	gives string // the path parameter that data.id is for
}{
	{"POST U/acme-accounts", accountExample, "acme_account_id"},
	{"POST U/certificates", certificateExample, "certificate_id"},
	{"POST U/devices/{device_id}/certificates", assignmentExample, ""},
	{"POST U/certificates/{certificate_id}/issues", func(*resident) any { return map[string]any{} }, "issue_id"},
	{"POST U/service_webhooks", webhookExample, "webhook_id"},
	{"POST U/service_webhooks/{webhook_id}/test", func(*resident) any { return nil }, "delivery_id"},
	{"PUT U/devices/{device_id}/install-config", configExample, ""},
}

func (w *world) settle(email, deviceID string) *resident {
	w.t.Helper()
	r := &resident{caller: w.person(email), ids: map[string]string{}}
	r.device = r.enrol(deviceID)
	r.ids["user_id"] = strconv.FormatInt(r.UserID, 10)
	r.ids["device_id"] = strconv.FormatInt(r.device.ID, 10)
	r.ids["device_public_id"] = deviceID
	r.ids["*"] = "index.html"
	r.ids["token"] = "no-such-token"
	for _, s := range steps {
		o := w.find(s.line)
		if o == nil {
			continue
		}
		a := r.try(o.method, w.fill(o, r.ids), s.body(r))
		if a.status > 204 {
			w.t.Fatalf("%s: %d %s", s.line, a.status, a.body)
		}
		if s.gives != "" {
			var made struct{ ID int64 }
			a.data(w.t, &made)
			r.ids[s.gives] = strconv.FormatInt(made.ID, 10)
		}
	}
	return r
}

func (w *world) find(line string) *operation {
	for _, o := range w.operations {
		if o.line() == line {
			return o
		}
	}
	return nil
}

// fill puts ids into the path of an operation.
func (w *world) fill(o *operation, ids map[string]string) string {
	w.t.Helper()
	return parameterPattern.ReplaceAllStringFunc(o.path, func(place string) string {
		id, ok := ids[strings.Trim(place, "{}")]
		if !ok {
			w.t.Fatalf("%s: nothing is known for %s; add a step that makes one to world_test.go", o.line(), place)
		}
		return url.PathEscape(id)
	})
}

// as is the credential of the resident that the operation takes. Nobody can
// have an API key or a worker token yet: these are refused, but never with 5xx.
func (w *world) as(o *operation, r *resident) *caller {
	switch {
	case o.rule.TakesSession():
		return r.caller
	case o.rule.TakesDevice():
		return r.device.caller
	case o.rule.TakesKey():
		return w.bearer("ak_0123456789012345678901234567890123456789012")
	}
	return w.anonymous()
}

// admitted reports whether as gives a credential that the operation accepts.
func admitted(o *operation) bool {
	return o.rule.TakesNone() || o.rule.TakesSession() || o.rule.TakesDevice()
}

func accountExample(*resident) any {
	return map[string]any{"name": "here", "email": "ops@example.org", "provider": "custom", "directory_url": "https://127.0.0.1:1/directory"}
}

func certificateExample(r *resident) any {
	return map[string]any{"action": "create", "domain_name": fmt.Sprintf("u%d.example.org", r.UserID), "acct_id": r.id("acme_account_id")}
}

func assignmentExample(r *resident) any { return map[string]any{"cert_id": r.id("certificate_id")} }

func webhookExample(*resident) any {
	return map[string]any{"url": "http://127.0.0.1:1/hook", "secret": "0123456789abcdef", "scope": map[string]any{"type": "all"}}
}

func configExample(r *resident) any {
	item := map[string]any{"type": "exec", "id": "step", "cmd": "true", "timeout_ms": 5}
	return map[string]any{"installs": []any{item}, "change_note": "first"}
}

func (r *resident) id(parameter string) int64 {
	id, _ := strconv.ParseInt(r.ids[parameter], 10, 64)
	return id
}
