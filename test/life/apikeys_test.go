package life_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/acmetest"
	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/app/apptest"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// A key for one certificate with read and issue reads, orders and exports it
// (api.md, rule 3 of Authentication), and knows of no other.
func TestKeyForOneCertificate(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p, pebble := apptest.StartWithCA(t, db, acmetest.Options{})
		me := p.Person("me@example.org")
		account := me.Account(pebble)
		cert, other := me.Certificate(account, "a.example.test"), me.Certificate(account, "b.example.test")
		key := me.APIKey(apptest.Entry("certificates", cert, "read", "issue"))
		one := fmt.Sprintf("/apiv1/me/certificates/%d", cert)
		var got apptest.Record
		key.Do("GET", one, nil, 200).Data(t, &got)
		if got.ID != cert {
			t.Errorf("read %+v", got)
		}
		var started, history = apptest.Issue{}, []apptest.Issue{}
		key.Do("POST", one+"/issues", nil, 201).Data(t, &started)
		apptest.Eventually(t, 2*time.Minute, "the issuance by key ends", func() bool {
			key.Do("GET", one+"/issues/history", nil, 200).Data(t, &history)
			return len(history) == 1 && history[0].Status == "SUCCESS"
		})
		if history[0].Trigger != "api_key" || history[0].ID != started.ID {
			t.Errorf("history %+v", history)
		}
		export := key.Do("GET", one+"/export?format=zip", nil, 200)
		if !strings.HasPrefix(string(export.Body), "PK") || len(export.Header.Get("X-Export-Password")) != 40 {
			t.Errorf("export %v", export.Header)
		}
		var list []apptest.Record
		key.Do("GET", "/apiv1/me/certificates", nil, 200).Data(t, &list)
		if len(list) != 1 || list[0].ID != cert {
			t.Errorf("list %+v", list)
		}
		key.Do("GET", fmt.Sprintf("/apiv1/me/acme-accounts/%d/certificates", account), nil, 200).Data(t, &list)
		if len(list) != 1 || list[0].ID != cert {
			t.Errorf("list of the account %+v", list)
		}
		for _, line := range []string{"GET ", "GET /issues", "POST /issues", "GET /issues/history", fmt.Sprintf("GET /issues/%d", started.ID), "GET /export?format=zip"} {
			method, rest, _ := strings.Cut(line, " ")
			at := func(id int64) *apptest.Answer {
				return key.Try(method, fmt.Sprintf("/apiv1/me/certificates/%d%s", id, rest), nil)
			}
			apptest.Same(t, line, at(other), at(99999), 404)
		}
		key.Do("PUT", one, map[string]any{"auto_renew": false}, 403)
		key.Do("PUT", one, map[string]any{"action": "rekey"}, 403)
		key.Do("DELETE", one, nil, 403)
		writer := me.APIKey(apptest.Entry("certificates", cert, "read", "write", "issue"))
		writer.Do("PUT", one, map[string]any{"action": "rekey"}, 200)
		writer.Do("GET", one+"/issues", nil, 200).Data(t, &history)
		if history[0].Trigger != "api_key" {
			t.Errorf("a rekey by key has the trigger %s", history[0].Trigger)
		}
		reader := me.APIKey(apptest.Entry("certificates", cert, "read"))
		reader.Do("GET", one, nil, 200)
		reader.Do("GET", one+"/export", nil, 403)
		reader.Do("POST", one+"/issues", nil, 403)
		me.APIKey(apptest.Entry("certificates", cert, "issue")).Do("GET", one+"/export", nil, 403)
		if got := p.Audited(key); strings.Join(got, " ") != "issuance.start certificate.export" {
			t.Errorf("the log has %v of the key", got)
		}
		me.Do("DELETE", key.Path(), nil, 204)
		key.Do("GET", one, nil, 401)
	})
}

// What a key does to devices: list, register, configure (api.md, rules 5 and 6).
func TestKeyForDevices(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(t *testing.T, db sqldb.Config) {
		p := apptest.Start(t, apptest.Settings(t, db), app.Options{}, nil)
		me := p.Person("me@example.org")
		first, second := me.Enrol(apptest.PublicID(1)), me.Enrol(apptest.PublicID(2))
		listed := func(k *apptest.APIKey) (ids []int64) {
			var list []struct{ ID int64 }
			k.Do("GET", "/apiv1/me/devices", nil, 200).Data(t, &list)
			for _, d := range list {
				ids = append(ids, d.ID)
			}
			return ids
		}
		if got := listed(me.APIKey(apptest.Entry("devices", "*", "read"))); len(got) != 2 {
			t.Errorf("all devices: %v", got)
		}
		one := me.APIKey(apptest.Entry("devices", first.ID, "read"))
		if got := listed(one); len(got) != 1 || got[0] != first.ID {
			t.Errorf("one device: %v", got)
		}
		byPublicID := func(id string) *apptest.Answer { return one.Try("GET", "/apiv1/me/devices/by-public-id/"+id, nil) }
		apptest.Same(t, "by public id", byPublicID(second.PublicID), byPublicID(apptest.PublicID(77)), 404)

		registrar := me.APIKey(apptest.Entry("ForDeviceAuthenticate", "*", "authenticate"))
		body := map[string]any{"device_public_id": apptest.PublicID(3), "dev_pk": apptest.SomePublicKey, "model": "future", "unknown": 1}
		var registered struct {
			Device  struct{ ID int64 }
			Session struct {
				AccessToken string `json:"access_token"`
			}
		}
		registrar.Do("POST", "/apiv1/me/devices", body, 201).Data(t, &registered)
		p.Bearer(registered.Session.AccessToken).Do("GET", "/apiv1/devices/self/install-config", nil, 200)
		registrar.Do("POST", "/apiv1/me/devices", body, 200)
		registrar.Do("GET", "/apiv1/me/devices", nil, 403)
		body["user_id"] = me.UserID + 1
		registrar.Do("POST", "/apiv1/me/devices", body, 403)
		one.Do("POST", "/apiv1/me/devices", body, 403)

		me.Do("PUT", fmt.Sprintf("/apiv1/me/devices/%d/install-config", first.ID), map[string]any{"installs": []any{
			map[string]any{"type": "copy", "id": "www", "ob_type": "cert", "ob_id": 1, "from": []any{"fullchain.pem"}, "to": []any{"/old.pem"}},
		}}, 200)
		config := fmt.Sprintf("/apiv1/me/devices/%d/install-config", first.ID)
		before := me.Do("GET", config, nil, 200)
		update := "/apiv1/me/install-config-update/" + first.PublicID
		patch := func(id int, to string) map[string]any {
			return map[string]any{"ob_type": "cert", "ob_id": id, "enabled": true, "to": to}
		}
		updater := me.APIKey(apptest.Entry("ForInstallConfigUpdate", "*", "update"))
		updater.Do("POST", update, []any{patch(1, "/new.pem"), patch(2, "/new.pem")}, 404) // all or nothing
		updater.Do("POST", "/apiv1/me/install-config-update/"+apptest.PublicID(77), []any{patch(1, "/new.pem")}, 404)
		apptest.Same(t, "after refusals", me.Do("GET", config, nil, 200), before, 200)
		updater.Do("POST", update, []any{patch(1, "/new.pem")}, 200)
		updater.Do("POST", update, map[string]any{"patches": []any{patch(1, "/newer.pem")}, "after_update_script": "reload"}, 200)
		after := string(me.Do("GET", config, nil, 200).Body)
		if !strings.Contains(after, "/newer.pem") || !strings.Contains(after, "reload") {
			t.Errorf("after two updates: %s", after)
		}
		me.Do("POST", update, []any{patch(1, "/x")}, 401) // not by session
		limited := me.APIKey(apptest.Entry("ForInstallConfigUpdate", second.ID, "update"))
		absent := limited.Try("POST", "/apiv1/me/install-config-update/"+apptest.PublicID(77), []any{patch(1, "/x")})
		apptest.Same(t, "another device", limited.Try("POST", update, []any{patch(1, "/x")}), absent, 404)
		me.APIKey(apptest.Entry("devices", "*", "read", "write")).Do("POST", update, []any{patch(1, "/x")}, 403)
		if got := strings.Join(p.Audited(updater), ","); got != "install_config.patch,install_config.patch" {
			t.Errorf("the log has %q of the key", got)
		}
		if got := strings.Join(p.Audited(registrar), " "); got != "device.register device.reregister" {
			t.Errorf("the log has %q of the key", got)
		}
	})
}

// The time of the last use reaches the database when the program stops.
func TestLastUseIsWrittenAtTheStop(t *testing.T) {
	t.Parallel()
	config := dbtest.SQLiteConfig(t)
	var key *apptest.APIKey
	t.Run("serve", func(t *testing.T) {
		p := apptest.Start(t, apptest.Settings(t, config), app.Options{}, nil)
		me := p.Person("me@example.org")
		key = me.APIKey(apptest.Entry("devices", "*", "read"))
		var shown struct {
			LastUsedAt int64 `json:"last_used_at"`
		}
		if me.Do("GET", key.Path(), nil, 200).Data(t, &shown); shown.LastUsedAt != 0 {
			t.Errorf("used before its use: %d", shown.LastUsedAt)
		}
		key.Do("GET", "/apiv1/me/devices", nil, 200)
		if me.Do("GET", key.Path(), nil, 200).Data(t, &shown); shown.LastUsedAt == 0 {
			t.Error("the use is not shown")
		}
	})
	var at int64
	err := dbtest.Open(t, config).Reader().QueryRowContext(t.Context(), "SELECT last_used_at FROM api_keys WHERE id = $1", key.ID).Scan(&at)
	if err != nil || at == 0 {
		t.Errorf("last_used_at %s %v", strconv.FormatInt(at, 10), err)
	}
}
