package apikeys

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		a := e.call(alice, "POST "+collection, `{"name":" ci ","expires_in_seconds":3600,"permissions":[
			{"obtype":"certificates","obid":"5","actions":["issue","read"]},{"obtype":"devices","obid":"*","actions":["read"]}]}`).want(t, 201, 0)
		var created CreatedKey
		a.data(t, &created)
		if !regexp.MustCompile(`^ak_[A-Za-z0-9_-]{43}$`).MatchString(created.Token) {
			t.Errorf("token %q", created.Token)
		}
		if got, want := a.header.Get("Location"), fmt.Sprintf("/apiv1/users/1/apikeys/%d", created.ID); got != want {
			t.Errorf("Location %q, want %q", got, want)
		}
		wanted := APIKey{
			ID: created.ID, UserID: alice, Name: "ci", Prefix: created.Token[:8], ExpiresInSeconds: 3600,
			Permissions: []Permission{{"certificates", "5", []string{"read", "issue"}}, {"devices", "*", []string{"read"}}},
			CreatedAt:   1_800_000_000_000, UpdatedAt: 1_800_000_000_000, ExpiresAt: 1_800_003_600_000,
		}
		equal(t, "created", created.APIKey, wanted)
		second := e.make(readFive)
		var key APIKey
		e.call(alice, "GET "+created.item(), "").want(t, 200, 0).data(t, &key)
		equal(t, "read", key, wanted)

		list := e.call(alice, "GET "+collection, "").want(t, 200, 0)
		var keys []APIKey
		list.data(t, &keys)
		if len(keys) != 2 || list.Meta.Total != 2 || keys[0].ID != second.ID {
			t.Errorf("list %s", list.raw)
		}
		equal(t, "listed", keys[1], wanted)
		page := e.call(alice, "GET "+collection+"?offset=1&limit=1", "").want(t, 200, 0)
		page.data(t, &keys)
		if len(keys) != 1 || keys[0].ID != created.ID || page.Meta.Total != 2 {
			t.Errorf("page %s", page.raw)
		}

		e.clock.Add(1000)
		e.call(alice, "PATCH "+created.item(), `{"permissions":[{"obtype":"certificates","obid":"6","actions":["read"]}]}`).want(t, 200, 0).data(t, &key)
		wanted.UpdatedAt, wanted.Permissions = 1_800_000_001_000, []Permission{{"certificates", "6", []string{"read"}}}
		equal(t, "permissions changed", key, wanted)
		e.call(alice, "PATCH "+created.item(), `{"name":"deploy"}`).want(t, 200, 0).data(t, &key)
		wanted.Name = "deploy"
		equal(t, "renamed", key, wanted)
		e.call(alice, "GET "+created.item(), "").want(t, 200, 0).data(t, &key)
		equal(t, "after both", key, wanted)
		e.call(alice, "DELETE "+created.item(), "").want(t, 204, 0)
		for _, line := range []string{"GET ", "DELETE "} {
			e.call(alice, line+created.item(), "").want(t, 404, fault.CodeNotFound)
		}
		e.call(alice, "PATCH "+created.item(), `{"name":"x"}`).want(t, 404, fault.CodeNotFound)

		for _, action := range []string{"create", "update", "update", "delete"} {
			if e.count("SELECT COUNT(*) FROM audit_log WHERE user_id = 1 AND actor = 'session 7' AND action = $1 AND object = $2", "apikey."+action, object(created.ID)) == 0 {
				t.Errorf("apikey.%s is not in the audit log", action)
			}
		}
		e.keepsNoToken(created.Token, second.Token)
	})
}

func equal(t *testing.T, what string, got, want APIKey) {
	t.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, a, b)
	}
}

// keepsNoToken looks for tokens where they must not be: in the database beside
// their digest, in answers to reading, in the log.
func (e *env) keepsNoToken(tokens ...string) {
	e.t.Helper()
	for _, token := range tokens {
		if e.count("SELECT COUNT(*) FROM audit_log WHERE detail LIKE $1", "%"+token[3:20]+"%") != 0 {
			e.t.Error("the audit log holds a token")
		}
		if e.count("SELECT COUNT(*) FROM api_keys WHERE token_hash <> $1 AND token_hash = $2", seal.HashToken(token), []byte(token)) != 0 {
			e.t.Error("the table holds a token")
		}
		for _, text := range []string{e.log.String(), e.call(alice, "GET "+collection, "").raw} {
			if strings.Contains(text, token[:20]) || strings.Contains(text, `"token"`) {
				e.t.Errorf("a token in %s", text)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db)
		key := e.make(readFive)
		draft := func(members string) string {
			return `{"name":"n","expires_in_seconds":60,"permissions":` + readFive + members + `}`
		}
		long := strings.Repeat("n", 201)
		for _, test := range []struct{ line, body, what string }{
			{"POST", `{"expires_in_seconds":60,"permissions":` + readFive + `}`, "name"},
			{"POST", `{"name":"  ","expires_in_seconds":60,"permissions":` + readFive + `}`, "name: must be 1 to 200"},
			{"POST", `{"name":"` + long + `","expires_in_seconds":60,"permissions":` + readFive + `}`, "name"},
			{"POST", `{"name":"n","permissions":` + readFive + `}`, "expires_in_seconds"},
			{"POST", `{"name":"n","expires_in_seconds":0,"permissions":` + readFive + `}`, "expires_in_seconds"},
			{"POST", `{"name":"n","expires_in_seconds":315360001,"permissions":` + readFive + `}`, "expires_in_seconds"},
			{"POST", `{"name":"n","expires_in_seconds":"60","permissions":` + readFive + `}`, "expires_in_seconds"},
			{"POST", `{"name":"n","expires_in_seconds":1.5,"permissions":` + readFive + `}`, "expires_in_seconds"},
			{"POST", `{"name":"n","expires_in_seconds":null,"permissions":` + readFive + `}`, "expires_in_seconds"},
			{"POST", `{"name":"n","expires_in_seconds":60}`, "permissions"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[]}`, "permissions"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":null}`, "permissions"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[null]}`, "permissions[0]"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"*"}]}`, "permissions[0]"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":5,"actions":["read"]}]}`, "permissions[0].obid"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"*","actions":"read"}]}`, "permissions[0].actions"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"*","actions":[1]}]}`, "permissions[0].actions[0]"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"*","actions":["read"]},{"obtype":"devices","obid":"1","actions":["fly"]}]}`, "permissions[1].actions[0]"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"5","OBID":"*","actions":["read"]}]}`, "permissions"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"5","obid":"*","actions":["read"]}]}`, "permissions"},
			{"POST", `{"name":"n","expires_in_seconds":60,"permissions":[{"obtype":"devices","obid":"5","actions":["read"],"id":7}]}`, "permissions[0]"},
			// mass assignment: nothing but the three members can be set
			{"POST", draft(`,"user_id":2`), "user_id"},
			{"POST", draft(`,"id":99`), "id"},
			{"POST", draft(`,"token":"ak_mine"`), "token"},
			{"POST", draft(`,"expires_at":9999999999999`), "expires_at"},
			{"POST", draft(`,"last_used_at":1`), "last_used_at"},
			{"POST", draft(`,"Name":"other"`), "ame"},
			{"PATCH", `{}`, "permissions"},
			{"PATCH", `{"permissions":[]}`, "permissions"},
			{"PATCH", `{"permissions":null}`, "permissions"},
			{"PATCH", `{"name":null}`, "name"},
			{"PATCH", `{"name":""}`, "name"},
			{"PATCH", `{"permissions":[{"obtype":"users","obid":"*","actions":["write"]}]}`, "permissions[0].obtype"},
			{"PATCH", `{"name":"n","expires_in_seconds":315360000}`, "expires_in_seconds"},
			{"PATCH", `{"name":"n","expires_at":9999999999999}`, "expires_at"},
			{"PATCH", `{"name":"n","user_id":2}`, "user_id"},
			{"PATCH", `{"name":"n","token":"ak_x"}`, "token"},
		} {
			line := test.line + " " + collection
			if test.line == "PATCH" {
				line = "PATCH " + key.item()
			}
			a := e.call(alice, line, test.body)
			if a.status != 400 || a.Error.Code != fault.CodeInvalid || !strings.Contains(a.Error.What, test.what) {
				t.Errorf("%s %.200s: %d %s, want 400 with %s", line, test.body, a.status, a.raw, test.what)
			}
		}
		for _, limit := range []string{"0", "1001", "x"} {
			e.call(alice, "GET "+collection+"?limit="+limit, "").want(t, 400, fault.CodeInvalid)
		}
		if n := e.count("SELECT COUNT(*) FROM api_keys WHERE name = 'ci' AND expires_in_seconds = 3600"); n != 1 || e.count("SELECT COUNT(*) FROM api_keys") != 1 {
			t.Error("something was written")
		}

		foreign, absent := e.call(bob, "GET "+key.item(), "").want(t, 404, fault.CodeNotFound), e.call(bob, "GET "+collection+"/4711", "").want(t, 404, fault.CodeNotFound)
		if foreign.raw != absent.raw {
			t.Errorf("foreign %s, absent %s", foreign.raw, absent.raw)
		}
		e.call(bob, "PATCH "+key.item(), `{"name":"mine"}`).want(t, 404, fault.CodeNotFound)
		e.call(bob, "DELETE "+key.item(), "").want(t, 404, fault.CodeNotFound)
		e.call(bob, "GET /apiv1/users/1/apikeys", "").want(t, 403, fault.CodeForbidden)
		e.call(alice, "GET "+collection+"/ak_", "").want(t, 404, fault.CodeNotFound)
		e.call(nil, "POST "+collection, draft("")).want(t, 401, fault.CodeUnauthorized)
		var list []APIKey
		e.call(bob, "GET "+collection, "").want(t, 200, 0).data(t, &list)
		if len(list) != 0 {
			t.Errorf("bob sees %v", list)
		}
	})
}

// To make a key, and to let one do more, needs a fresh sign-in; to let it do
// less, to rename and to revoke it do not.
func TestStepUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	key := e.make(`[{"obtype":"certificates","obid":"*","actions":["read","issue"]}]`)
	e.stepUp = &fault.Error{Code: fault.CodeStepUpRequired, Key: "STEP_UP_REQUIRED", What: "Sign in again."}
	e.call(alice, "POST "+collection, `{"name":"n","expires_in_seconds":60,"permissions":`+readFive+`}`).want(t, 403, fault.CodeStepUpRequired)
	for permissions, status := range map[string]int{
		`[{"obtype":"certificates","obid":"*","actions":["write"]}]`: 403,
		`[{"obtype":"devices","obid":"*","actions":["read"]}]`:       403,
		readFive: 200,
	} {
		if a := e.call(alice, "PATCH "+key.item(), `{"permissions":`+permissions+`}`); a.status != status {
			t.Errorf("%s: %d %s, want %d", permissions, a.status, a.raw, status)
		}
	}
	e.call(alice, "PATCH "+key.item(), `{"name":"m","permissions":[{"obtype":"certificates","obid":"6","actions":["read"]}]}`).want(t, 403, fault.CodeStepUpRequired)
	e.call(alice, "PATCH "+key.item(), `{"name":"m"}`).want(t, 200, 0)
	var got APIKey
	e.call(alice, "GET "+key.item(), "").data(t, &got)
	if got.Name != "m" || len(got.Permissions) != 1 || got.Permissions[0].Obid != "5" {
		t.Errorf("%+v", got)
	}
	e.call(alice, "DELETE "+key.item(), "").want(t, 204, 0)
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	for _, credential := range []any{nil, alice, "ak_garbage"} {
		a := e.call(credential, "GET /apiv1/permissions/catalog", "").want(t, 200, 0)
		var scopes []PermissionScope
		a.data(t, &scopes)
		var text strings.Builder
		for _, s := range scopes {
			fmt.Fprintln(&text, s.Name, s.Actions)
		}
		const want = "certificates [read write issue]\ndevices [read write]\nacme_accounts [read write]\ncas [read write issue]\n" +
			"service_webhooks [read write]\nForInstallConfigUpdate [update]\nForDeviceAuthenticate [authenticate validate revoke rekey]\n"
		if text.String() != want || a.Meta.Total != 7 {
			t.Errorf("%s\n%+v", &text, a.Meta)
		}
	}
}

func TestKeysPerUser(t *testing.T) {
	t.Parallel()
	e := newEnv(t, dbtest.SQLite(t))
	e.Quota = func(_ context.Context, _ *sqldb.Tx, userID int64) error {
		return fault.Conflict("User %d has enough keys.", userID)
	}
	a := e.call(alice, "POST "+collection, `{"name":"n","expires_in_seconds":60,"permissions":`+readFive+`}`).want(t, 409, fault.CodeConflict)
	if !strings.Contains(a.Error.What, "User 1 has enough keys") {
		t.Error(a.raw)
	}
}
