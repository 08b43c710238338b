package app_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/sqldb"
)

// world is a running server with two people who own one object of each kind.
type world struct {
	*program
	operations []*operation
	alice, bob *resident
	admin      *resident // an administrator with a fresh passkey
	ward       string    // the id of the user whom the administrator looks after
	wardsName  string    // the id of a name of theirs
	postgres   bool      // the second engine: what no database sees need not be sent again
}

// resident is a person with a device and the ids of all that they own, by the
// name of the path parameter.
type resident struct {
	*caller
	device *device
	ids    map[string]string
	keys   map[string]string // obid → API key that may do everything with it
}

func newWorld(t *testing.T, db sqldb.Config) *world {
	t.Helper()
	return newWorldWith(t, settings(t, db), app.Options{})
}

func newWorldWith(t *testing.T, c app.Config, options app.Options) *world {
	t.Helper()
	p := start(t, c, options, nil)
	p.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w := &world{program: p, operations: operations(t, p), postgres: c.DB != ""}
	w.admin = w.administrator("root@example.org")
	if o := w.find("POST /apiv1/admin/users"); o != nil {
		var made struct{ ID int64 }
		w.admin.do("POST", o.path, map[string]any{"email": "ward@example.org"}, 201).data(t, &made)
		w.ward = strconv.FormatInt(made.ID, 10)
	}
	ward := &resident{caller: &caller{p: p}, ids: map[string]string{}}
	ward.UserID, _ = strconv.ParseInt(w.ward, 10, 64)
	w.name(ward)
	w.wardsName = ward.ids["name_id"]
	w.alice = w.settle("alice@example.org", publicID(0xa))
	w.bob = w.settle("bob@example.org", publicID(0xb))
	return w
}

// administrator makes an administrator, who has just used a passkey.
func (w *world) administrator(email string) *resident {
	w.t.Helper()
	users, done, err := app.Users(w.t.Context(), w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	defer done()
	id, err := users.CreateUser(w.t.Context(), identity.NewUser{Email: email, Password: password, Admin: true})
	if err != nil {
		w.t.Fatal(err)
	}
	r := &resident{caller: &caller{p: w.program, UserID: id}, ids: map[string]string{}}
	r.caller = w.sessionWith(w.database(), r, time.Now(), access.AAL2)
	return r
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
	{"POST U/apikeys", keyExample, "apikey_id"},
}

func (w *world) settle(email, deviceID string) *resident {
	w.t.Helper()
	r := &resident{caller: w.person(email), ids: map[string]string{}, keys: map[string]string{}}
	r.device = r.enrol(deviceID)
	r.ids["user_id"] = strconv.FormatInt(r.UserID, 10)
	r.ids["device_id"] = strconv.FormatInt(r.device.ID, 10)
	r.ids["device_public_id"] = deviceID
	r.ids["*"] = "index.html"
	r.ids["token"] = "no-such-token"
	r.ids["provider"] = "github"
	r.ids["name"] = "corp"                         // the world has no provider: TestProviders has
	r.ids["credential_id"] = "4611686018427387903" // none: a passkey takes an authenticator, see package passkeys
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
	w.name(r)
	if w.find("GET U/sessions") != nil {
		var sessions []struct{ ID int64 }
		r.do("GET", "/apiv1/me/sessions", nil, 200).data(w.t, &sessions)
		r.ids["session_id"] = strconv.FormatInt(sessions[0].ID, 10)
	}
	if w.find("POST U/apikeys") != nil {
		r.keys["*"] = r.key(keyExample(r))
		r.keys["certificate"] = r.key(permitting(permission("certificates", r.ids["certificate_id"], "read")))
	}
	return r
}

// name makes a name that the resident holds, as a record would, and a grant on
// it.
func (w *world) name(r *resident) {
	w.t.Helper()
	db := w.database()
	var id int64
	err := db.Writer().QueryRowContext(w.t.Context(), `INSERT INTO name_claims (user_id, name, domain, state, proof, taken_from, held_at, lost_at,
		checked_at, next_check_at, absent_since, lapsed_at, freed_at, created_at) VALUES ($1, $2, $2, 'HELD', 'txt', 0, 1, 0, 0, 0, 0, 0, 0, 1) RETURNING id`,
		r.UserID, r.domain()).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	r.ids["name_id"] = strconv.FormatInt(id, 10)
	err = db.Writer().QueryRowContext(w.t.Context(), `INSERT INTO name_grants (claim_id, user_id, pattern, expires_at, ended_at, stops_at, warned_at, created_at)
		VALUES ($1, $2, $3, 0, 0, 0, 0, 1) RETURNING id`, id, r.UserID, r.domain()).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	r.ids["grant_id"] = strconv.FormatInt(id, 10)
}

// domain is the name that the resident holds.
func (r *resident) domain() string { return fmt.Sprintf("held%d.com", r.UserID) }

// key makes an API key.
func (r *resident) key(body any) string {
	r.p.t.Helper()
	var made struct{ Token string }
	r.do("POST", "/apiv1/me/apikeys", body, 201).data(r.p.t, &made)
	return made.Token
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
		if place == "{user_id}" && o.rule.TakesAdmins() && (id == w.alice.ids["user_id"] || id == w.bob.ids["user_id"]) {
			id = w.ward
		}
		if place == "{name_id}" && o.rule.TakesAdmins() && (id == w.alice.ids["name_id"] || id == w.bob.ids["name_id"]) {
			id = w.wardsName
		}
		if !ok {
			w.t.Fatalf("%s: nothing is known for %s; add a step that makes one to world_test.go", o.line(), place)
		}
		return url.PathEscape(id)
	})
}

// as is the credential of the resident that the operation takes. Where nobody
// can have one yet, a wrong one: it is refused, but never with 5xx.
func (w *world) as(o *operation, r *resident) *caller {
	switch {
	case o.rule.TakesAdmins():
		return w.admin.caller
	case o.rule.TakesSession():
		return r.caller
	case o.rule.TakesDevice():
		return r.device.caller
	case o.rule.TakesKey() && strings.HasSuffix(o.path, "/certificate-assign"):
		return w.bearer(cmp.Or(r.keys["certificate"], unknownKey))
	case o.rule.TakesKey():
		return w.bearer(cmp.Or(r.keys["*"], unknownKey))
	}
	return w.anonymous()
}

const unknownKey = "ak_0123456789012345678901234567890123456789012"

// admitted reports whether as gives a credential that the operation accepts.
func (w *world) admitted(o *operation) bool {
	return o.rule.TakesNone() || o.rule.TakesSession() || o.rule.TakesDevice() || o.rule.TakesKey() && len(w.alice.keys) > 0
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

func permission(scope, object string, actions ...string) any {
	return map[string]any{"obtype": scope, "obid": object, "actions": actions}
}

func permitting(permissions ...any) any {
	return map[string]any{"name": "key", "expires_in_seconds": 3600, "permissions": permissions}
}

// keyExample may do everything that a key may.
func keyExample(*resident) any {
	return permitting(
		permission("certificates", "*", "read", "write", "issue"), permission("devices", "*", "read", "write"),
		permission("acme_accounts", "*", "read", "write"), permission("service_webhooks", "*", "read", "write"),
		permission("ForInstallConfigUpdate", "*", "update"), permission("ForDeviceAuthenticate", "*", "authenticate"),
	)
}
