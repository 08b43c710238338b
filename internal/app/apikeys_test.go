package app_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// apiKey makes requests with an API key.
type apiKey struct {
	*caller
	ID    int64
	Token string
}

// entry is a permission entry as api.md writes it.
func entry(scope string, object any, actions ...string) map[string]any {
	return map[string]any{"obtype": scope, "obid": fmt.Sprint(object), "actions": actions}
}

// apiKey makes a key that lives an hour.
func (c *caller) apiKey(entries ...map[string]any) *apiKey {
	c.p.t.Helper()
	k := &apiKey{}
	c.do("POST", "/apiv1/me/apikeys", map[string]any{"name": "ci", "expires_in_seconds": 3600, "permissions": entries}, 201).data(c.p.t, k)
	k.caller = c.p.bearer(k.Token)
	return k
}

func (k *apiKey) path() string { return fmt.Sprintf("/apiv1/me/apikeys/%d", k.ID) }

// database opens the program's database as another process would.
func (p *program) database() *sqldb.DB {
	p.t.Helper()
	db, err := app.OpenDatabase(p.t.Context(), p.config, slog.New(slog.DiscardHandler))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = db.Close() })
	return db
}

// audited are the actions that the audit log has of the key, in their order,
// without what it was refused.
func (p *program) audited(k *apiKey) (actions []string) {
	p.t.Helper()
	rows, err := p.database().Reader().QueryContext(p.t.Context(), "SELECT action FROM audit_log WHERE actor = $1 AND action <> 'access.refused' ORDER BY seq", fmt.Sprintf("key %d", k.ID))
	if err != nil {
		p.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var action string
		if err := rows.Scan(&action); err != nil {
			p.t.Fatal(err)
		}
		actions = append(actions, action)
	}
	if err := rows.Err(); err != nil {
		p.t.Fatal(err)
	}
	return actions
}

// same fails unless both answers have the status and are equal byte by byte.
func same(t *testing.T, what string, a, b *answer, status int) {
	t.Helper()
	if a.status != status || b.status != status || string(a.body) != string(b.body) {
		t.Errorf("%s: %d %s\nand %d %s, want %d twice", what, a.status, a.body, b.status, b.body, status)
	}
}

// A key for one certificate with read and issue reads, orders and exports it
// (api.md, rule 3 of Authentication), and knows of no other.
func TestKeyForOneCertificate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := startWithCA(t, db, acmetest.Options{})
		me := p.person("me@example.org")
		account := me.account(pebble)
		cert, other := me.certificate(account, "a.example.test"), me.certificate(account, "b.example.test")
		key := me.apiKey(entry("certificates", cert, "read", "issue"))
		one := fmt.Sprintf("/apiv1/me/certificates/%d", cert)
		var got record
		key.do("GET", one, nil, 200).data(t, &got)
		if got.ID != cert {
			t.Errorf("read %+v", got)
		}
		var started, history = issue{}, []issue{}
		key.do("POST", one+"/issues", nil, 201).data(t, &started)
		eventually(t, 30*time.Second, "the issuance by key ends", func() bool {
			key.do("GET", one+"/issues/history", nil, 200).data(t, &history)
			return len(history) == 1 && history[0].Status == "SUCCESS"
		})
		if history[0].Trigger != "api_key" || history[0].ID != started.ID {
			t.Errorf("history %+v", history)
		}
		export := key.do("GET", one+"/export?format=zip", nil, 200)
		if !strings.HasPrefix(string(export.body), "PK") || len(export.header.Get("X-Export-Password")) != 40 {
			t.Errorf("export %v", export.header)
		}
		var list []record
		key.do("GET", "/apiv1/me/certificates", nil, 200).data(t, &list)
		if len(list) != 1 || list[0].ID != cert {
			t.Errorf("list %+v", list)
		}
		key.do("GET", fmt.Sprintf("/apiv1/me/acme-accounts/%d/certificates", account), nil, 200).data(t, &list)
		if len(list) != 1 || list[0].ID != cert {
			t.Errorf("list of the account %+v", list)
		}
		for _, line := range []string{"GET ", "GET /issues", "POST /issues", "GET /issues/history", fmt.Sprintf("GET /issues/%d", started.ID), "GET /export?format=zip"} {
			method, rest, _ := strings.Cut(line, " ")
			at := func(id int64) *answer {
				return key.try(method, fmt.Sprintf("/apiv1/me/certificates/%d%s", id, rest), nil)
			}
			same(t, line, at(other), at(99999), 404)
		}
		key.do("PUT", one, map[string]any{"auto_renew": false}, 403)
		key.do("PUT", one, map[string]any{"action": "rekey"}, 403)
		key.do("DELETE", one, nil, 403)
		writer := me.apiKey(entry("certificates", cert, "read", "write", "issue"))
		writer.do("PUT", one, map[string]any{"action": "rekey"}, 200)
		writer.do("GET", one+"/issues", nil, 200).data(t, &history)
		if history[0].Trigger != "api_key" {
			t.Errorf("a rekey by key has the trigger %s", history[0].Trigger)
		}
		reader := me.apiKey(entry("certificates", cert, "read"))
		reader.do("GET", one, nil, 200)
		reader.do("GET", one+"/export", nil, 403)
		reader.do("POST", one+"/issues", nil, 403)
		me.apiKey(entry("certificates", cert, "issue")).do("GET", one+"/export", nil, 403)
		if got := p.audited(key); strings.Join(got, " ") != "issuance.start certificate.export" {
			t.Errorf("the log has %v of the key", got)
		}
		me.do("DELETE", key.path(), nil, 204)
		key.do("GET", one, nil, 401)
	})
}

// What a key does to devices: list, register, configure (api.md, rules 5 and 6).
func TestKeyForDevices(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db sqldb.Config) {
		p := start(t, settings(t, db), app.Options{}, nil)
		me := p.person("me@example.org")
		first, second := me.enrol(publicID(1)), me.enrol(publicID(2))
		listed := func(k *apiKey) (ids []int64) {
			var list []struct{ ID int64 }
			k.do("GET", "/apiv1/me/devices", nil, 200).data(t, &list)
			for _, d := range list {
				ids = append(ids, d.ID)
			}
			return ids
		}
		if got := listed(me.apiKey(entry("devices", "*", "read"))); len(got) != 2 {
			t.Errorf("all devices: %v", got)
		}
		one := me.apiKey(entry("devices", first.ID, "read"))
		if got := listed(one); len(got) != 1 || got[0] != first.ID {
			t.Errorf("one device: %v", got)
		}
		byPublicID := func(id string) *answer { return one.try("GET", "/apiv1/me/devices/by-public-id/"+id, nil) }
		same(t, "by public id", byPublicID(second.PublicID), byPublicID(publicID(77)), 404)

		registrar := me.apiKey(entry("ForDeviceAuthenticate", "*", "authenticate"))
		body := map[string]any{"device_public_id": publicID(3), "dev_pk": somePublicKey, "model": "future", "unknown": 1}
		var registered struct {
			Device  struct{ ID int64 }
			Session struct {
				AccessToken string `json:"access_token"`
			}
		}
		registrar.do("POST", "/apiv1/me/devices", body, 201).data(t, &registered)
		p.bearer(registered.Session.AccessToken).do("GET", "/apiv1/devices/self/install-config", nil, 200)
		registrar.do("POST", "/apiv1/me/devices", body, 200)
		registrar.do("GET", "/apiv1/me/devices", nil, 403)
		body["user_id"] = me.UserID + 1
		registrar.do("POST", "/apiv1/me/devices", body, 403)
		one.do("POST", "/apiv1/me/devices", body, 403)

		me.do("PUT", fmt.Sprintf("/apiv1/me/devices/%d/install-config", first.ID), map[string]any{"installs": []any{
			map[string]any{"type": "copy", "id": "www", "ob_type": "cert", "ob_id": 1, "from": []any{"fullchain.pem"}, "to": []any{"/old.pem"}},
		}}, 200)
		config := fmt.Sprintf("/apiv1/me/devices/%d/install-config", first.ID)
		before := me.do("GET", config, nil, 200)
		update := "/apiv1/me/install-config-update/" + first.PublicID
		patch := func(id int, to string) map[string]any {
			return map[string]any{"ob_type": "cert", "ob_id": id, "enabled": true, "to": to}
		}
		updater := me.apiKey(entry("ForInstallConfigUpdate", "*", "update"))
		updater.do("POST", update, []any{patch(1, "/new.pem"), patch(2, "/new.pem")}, 404) // all or nothing
		updater.do("POST", "/apiv1/me/install-config-update/"+publicID(77), []any{patch(1, "/new.pem")}, 404)
		same(t, "after refusals", me.do("GET", config, nil, 200), before, 200)
		updater.do("POST", update, []any{patch(1, "/new.pem")}, 200)
		updater.do("POST", update, map[string]any{"patches": []any{patch(1, "/newer.pem")}, "after_update_script": "reload"}, 200)
		after := string(me.do("GET", config, nil, 200).body)
		if !strings.Contains(after, "/newer.pem") || !strings.Contains(after, "reload") {
			t.Errorf("after two updates: %s", after)
		}
		me.do("POST", update, []any{patch(1, "/x")}, 401) // not by session
		limited := me.apiKey(entry("ForInstallConfigUpdate", second.ID, "update"))
		absent := limited.try("POST", "/apiv1/me/install-config-update/"+publicID(77), []any{patch(1, "/x")})
		same(t, "another device", limited.try("POST", update, []any{patch(1, "/x")}), absent, 404)
		me.apiKey(entry("devices", "*", "read", "write")).do("POST", update, []any{patch(1, "/x")}, 403)
		if got := strings.Join(p.audited(updater), ","); got != "install_config.patch,install_config.patch" {
			t.Errorf("the log has %q of the key", got)
		}
		if got := strings.Join(p.audited(registrar), " "); got != "device.register device.reregister" {
			t.Errorf("the log has %q of the key", got)
		}
	})
}

// The time of the last use reaches the database when the program stops.
func TestLastUseIsWrittenAtTheStop(t *testing.T) {
	t.Parallel()
	config := dbtest.SQLiteConfig(t)
	var key *apiKey
	t.Run("serve", func(t *testing.T) {
		p := start(t, settings(t, config), app.Options{}, nil)
		me := p.person("me@example.org")
		key = me.apiKey(entry("devices", "*", "read"))
		var shown struct {
			LastUsedAt int64 `json:"last_used_at"`
		}
		if me.do("GET", key.path(), nil, 200).data(t, &shown); shown.LastUsedAt != 0 {
			t.Errorf("used before its use: %d", shown.LastUsedAt)
		}
		key.do("GET", "/apiv1/me/devices", nil, 200)
		if me.do("GET", key.path(), nil, 200).data(t, &shown); shown.LastUsedAt == 0 {
			t.Error("the use is not shown")
		}
	})
	var at int64
	err := dbtest.Open(t, config).Reader().QueryRowContext(t.Context(), "SELECT last_used_at FROM api_keys WHERE id = $1", key.ID).Scan(&at)
	if err != nil || at == 0 {
		t.Errorf("last_used_at %s %v", strconv.FormatInt(at, 10), err)
	}
}
