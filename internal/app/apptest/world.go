package apptest

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

// World is a running server with two people who own one object of each kind.
type World struct {
	*Program
	Operations []*Operation
	Alice, Bob *Resident
	Admin      *Resident // an administrator with a fresh passkey
	ward       string    // the id of the user whom the administrator looks after
	wardsName  string    // the id of a name of theirs
	Postgres   bool      // the second engine: what no database sees need not be sent again
}

// Resident is a person with a device and the ids of all that they own, by the
// name of the path parameter.
type Resident struct {
	*Caller
	Device *Device
	Ids    map[string]string
	Keys   map[string]string // obid → API key that may do everything with it
}

func NewWorld(t *testing.T, db sqldb.Config) *World {
	t.Helper()
	return NewWorldWith(t, Settings(t, db), app.Options{})
}

func NewWorldWith(t *testing.T, c app.Config, options app.Options) *World {
	t.Helper()
	p := Start(t, c, options, nil)
	p.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w := &World{Program: p, Operations: Operations(t, p), Postgres: c.DB != ""}
	w.Admin = w.administrator("root@example.org")
	if o := w.Find("POST /apiv1/admin/users"); o != nil {
		var made struct{ ID int64 }
		w.Admin.Do("POST", o.Path, map[string]any{"email": "ward@example.org"}, 201).Data(t, &made)
		w.ward = strconv.FormatInt(made.ID, 10)
	}
	ward := &Resident{Caller: &Caller{P: p}, Ids: map[string]string{}}
	ward.UserID, _ = strconv.ParseInt(w.ward, 10, 64)
	w.name(ward)
	w.wardsName = ward.Ids["name_id"]
	w.Alice = w.Settle("alice@example.org", PublicID(0xa))
	w.Bob = w.Settle("bob@example.org", PublicID(0xb))
	return w
}

// administrator makes an administrator, who has just used a passkey.
func (w *World) administrator(email string) *Resident {
	w.T.Helper()
	users, done, err := app.Users(w.T.Context(), w.Config)
	if err != nil {
		w.T.Fatal(err)
	}
	defer done()
	id, err := users.CreateUser(w.T.Context(), identity.NewUser{Email: email, Password: Password, Admin: true})
	if err != nil {
		w.T.Fatal(err)
	}
	r := &Resident{Caller: &Caller{P: w.Program, UserID: id}, Ids: map[string]string{}}
	r.Caller = w.SessionWith(w.Database(), r, time.Now(), access.AAL2)
	return r
}

// steps make one object of each kind, where the route that makes it is there.
var steps = []struct {
	line  string
	body  func(r *Resident) any
	gives string // the path parameter that data.id is for
}{
	{"POST U/acme-accounts", AccountExample, "acme_account_id"},
	{"POST U/certificates", CertificateExample, "certificate_id"},
	{"POST U/devices/{device_id}/certificates", assignmentExample, ""},
	{"POST U/certificates/{certificate_id}/issues", func(*Resident) any { return map[string]any{} }, "issue_id"},
	{"POST U/service_webhooks", WebhookExample, "webhook_id"},
	{"POST U/service_webhooks/{webhook_id}/test", func(*Resident) any { return nil }, "delivery_id"},
	{"PUT U/devices/{device_id}/install-config", ConfigExample, ""},
	{"POST U/apikeys", KeyExample, "apikey_id"},
}

func (w *World) Settle(email, deviceID string) *Resident {
	w.T.Helper()
	r := &Resident{Caller: w.Person(email), Ids: map[string]string{}, Keys: map[string]string{}}
	r.Device = r.Enrol(deviceID)
	r.Ids["user_id"] = strconv.FormatInt(r.UserID, 10)
	r.Ids["device_id"] = strconv.FormatInt(r.Device.ID, 10)
	r.Ids["device_public_id"] = deviceID
	r.Ids["*"] = "index.html"
	r.Ids["token"] = "no-such-token"
	r.Ids["provider"] = "github"
	r.Ids["name"] = "corp"                         // the world has no provider: TestProviders has
	r.Ids["credential_id"] = "4611686018427387903" // none: a passkey takes an authenticator, see package passkeys
	for _, s := range steps {
		o := w.Find(s.line)
		if o == nil {
			continue
		}
		a := r.Try(o.Method, w.Fill(o, r.Ids), s.body(r))
		if a.Status > 204 {
			w.T.Fatalf("%s: %d %s", s.line, a.Status, a.Body)
		}
		if s.gives != "" {
			var made struct{ ID int64 }
			a.Data(w.T, &made)
			r.Ids[s.gives] = strconv.FormatInt(made.ID, 10)
		}
	}
	w.name(r)
	if w.Find("GET U/sessions") != nil {
		var sessions []struct{ ID int64 }
		r.Do("GET", "/apiv1/me/sessions", nil, 200).Data(w.T, &sessions)
		r.Ids["session_id"] = strconv.FormatInt(sessions[0].ID, 10)
	}
	if w.Find("POST U/apikeys") != nil {
		r.Keys["*"] = r.Key(KeyExample(r))
		r.Keys["certificate"] = r.Key(Permitting(Permission("certificates", r.Ids["certificate_id"], "read")))
	}
	return r
}

// name makes a name that the resident holds, as a record would, and a grant on
// it.
func (w *World) name(r *Resident) {
	w.T.Helper()
	db := w.Database()
	var id int64
	err := db.Writer().QueryRowContext(w.T.Context(), `INSERT INTO name_claims (user_id, name, domain, state, proof, taken_from, held_at, lost_at,
		checked_at, next_check_at, absent_since, lapsed_at, freed_at, created_at) VALUES ($1, $2, $2, 'HELD', 'txt', 0, 1, 0, 0, 0, 0, 0, 0, 1) RETURNING id`,
		r.UserID, r.domain()).Scan(&id)
	if err != nil {
		w.T.Fatal(err)
	}
	r.Ids["name_id"] = strconv.FormatInt(id, 10)
	err = db.Writer().QueryRowContext(w.T.Context(), `INSERT INTO name_grants (claim_id, user_id, pattern, expires_at, ended_at, stops_at, warned_at, created_at)
		VALUES ($1, $2, $3, 0, 0, 0, 0, 1) RETURNING id`, id, r.UserID, r.domain()).Scan(&id)
	if err != nil {
		w.T.Fatal(err)
	}
	r.Ids["grant_id"] = strconv.FormatInt(id, 10)
}

// domain is the name that the resident holds.
func (r *Resident) domain() string { return fmt.Sprintf("held%d.com", r.UserID) }

// Key makes an API key.
func (r *Resident) Key(body any) string {
	r.P.T.Helper()
	var made struct{ Token string }
	r.Do("POST", "/apiv1/me/apikeys", body, 201).Data(r.P.T, &made)
	return made.Token
}

func (w *World) Find(line string) *Operation {
	for _, o := range w.Operations {
		if o.Line() == line {
			return o
		}
	}
	return nil
}

// Fill puts ids into the path of an operation.
func (w *World) Fill(o *Operation, ids map[string]string) string {
	w.T.Helper()
	return parameterPattern.ReplaceAllStringFunc(o.Path, func(place string) string {
		id, ok := ids[strings.Trim(place, "{}")]
		if place == "{user_id}" && o.Rule.TakesAdmins() && (id == w.Alice.Ids["user_id"] || id == w.Bob.Ids["user_id"]) {
			id = w.ward
		}
		if place == "{name_id}" && o.Rule.TakesAdmins() && (id == w.Alice.Ids["name_id"] || id == w.Bob.Ids["name_id"]) {
			id = w.wardsName
		}
		if !ok {
			w.T.Fatalf("%s: nothing is known for %s; add a step that makes one to world_test.go", o.Line(), place)
		}
		return url.PathEscape(id)
	})
}

// As is the credential of the resident that the operation takes. Where nobody
// can have one yet, a wrong one: it is refused, but never with 5xx.
func (w *World) As(o *Operation, r *Resident) *Caller {
	switch {
	case o.Rule.TakesAdmins():
		return w.Admin.Caller
	case o.Rule.TakesSession():
		return r.Caller
	case o.Rule.TakesDevice():
		return r.Device.Caller
	case o.Rule.TakesKey() && strings.HasSuffix(o.Path, "/certificate-assign"):
		return w.Bearer(cmp.Or(r.Keys["certificate"], UnknownKey))
	case o.Rule.TakesKey():
		return w.Bearer(cmp.Or(r.Keys["*"], UnknownKey))
	}
	return w.Anonymous()
}

const UnknownKey = "ak_0123456789012345678901234567890123456789012"

// Admitted reports whether as gives a credential that the operation accepts.
func (w *World) Admitted(o *Operation) bool {
	return o.Rule.TakesNone() || o.Rule.TakesSession() || o.Rule.TakesDevice() || o.Rule.TakesKey() && len(w.Alice.Keys) > 0
}

func AccountExample(*Resident) any {
	return map[string]any{"name": "here", "email": "ops@example.org", "provider": "custom", "directory_url": "https://127.0.0.1:1/directory"}
}

func CertificateExample(r *Resident) any {
	return map[string]any{"action": "create", "domain_name": fmt.Sprintf("u%d.example.org", r.UserID), "acct_id": r.ID("acme_account_id")}
}

func assignmentExample(r *Resident) any { return map[string]any{"cert_id": r.ID("certificate_id")} }

func WebhookExample(*Resident) any {
	return map[string]any{"url": "http://127.0.0.1:1/hook", "secret": "0123456789abcdef", "scope": map[string]any{"type": "all"}}
}

func ConfigExample(r *Resident) any {
	item := map[string]any{"type": "exec", "id": "step", "cmd": "true", "timeout_ms": 5}
	return map[string]any{"installs": []any{item}, "change_note": "first"}
}

func (r *Resident) ID(parameter string) int64 {
	id, _ := strconv.ParseInt(r.Ids[parameter], 10, 64)
	return id
}

func Permission(scope, object string, actions ...string) any {
	return map[string]any{"obtype": scope, "obid": object, "actions": actions}
}

func Permitting(permissions ...any) any {
	return map[string]any{"name": "key", "expires_in_seconds": 3600, "permissions": permissions}
}

// KeyExample may do everything that a key may.
func KeyExample(*Resident) any {
	return Permitting(
		Permission("certificates", "*", "read", "write", "issue"), Permission("devices", "*", "read", "write"),
		Permission("acme_accounts", "*", "read", "write"), Permission("service_webhooks", "*", "read", "write"),
		Permission("ForInstallConfigUpdate", "*", "update"), Permission("ForDeviceAuthenticate", "*", "authenticate"),
	)
}
