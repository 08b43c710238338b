package installs

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func TestConfigFromNothingToRestored(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		empty := `{"data":{"id":0,"user_device_id":1,"version":0,"installs":[],"installs_hash":"","after_update_script":null,"updated_by":"","created_at":0,"updated_at":0}}`
		for as, path := range map[string]string{asUser: configPath, asDevice: selfPath} {
			if w := h.call(t, as, "GET", path, nil); w.Code != 200 || strings.TrimSpace(w.Body.String()) != empty {
				t.Fatalf("no config yet: %d %s", w.Code, w.Body)
			}
		}

		first := want[Config](t, h.call(t, asUser, "PUT", configPath, twoSteps), 200).Data
		w := h.call(t, asDevice, "GET", selfPath, nil)
		want := fmt.Sprintf(`{"data":{"id":%d,"user_device_id":1,"version":1,"installs":[`+
			`{"id":"web","type":"copy","enabled":true,"ob_type":"cert","ob_id":7,"from":["fullchain.pem","private.key"],"to":["/etc/ssl/web.pem","/etc/ssl/web.key"]},`+
			`{"id":"step-2","type":"exec","enabled":true,"depends_on":["web"],"cmd":["systemctl","reload","nginx"],"timeout_ms":5000}],`+
			`"installs_hash":%q,"after_update_script":null,"updated_by":"user 1","created_at":1700000000,"updated_at":1700000000}}`, first.ID, first.InstallsHash)
		if got := strings.TrimSpace(w.Body.String()); got != want {
			t.Fatalf("served\n%s, want\n%s", got, want)
		}

		h.clock.Add(60)
		script := "#!/bin/sh\r\n\techo <é>\u2028 && true\n\n"
		second := h.put(t, map[string]any{"installs": []any{}, "after_update_script": script})
		if second.Version != 2 || second.ID != first.ID || second.CreatedAt != first.CreatedAt || second.UpdatedAt != first.CreatedAt+60 ||
			second.Script == nil || *second.Script != script || len(second.Installs) != 0 || second.InstallsHash == first.InstallsHash {
			t.Fatalf("second: %+v", second)
		}
		if kept := h.put(t, map[string]any{"installs": []any{}}); kept.Version != 3 || kept.Script == nil || *kept.Script != script || kept.InstallsHash != second.InstallsHash {
			t.Fatalf("a PUT without the script keeps it: %+v", kept)
		}
		if cleared := h.put(t, map[string]any{"installs": []any{}, "after_update_script": nil}); cleared.Version != 4 || cleared.Script != nil {
			t.Fatalf("null clears it: %+v", cleared)
		}
		if blank := h.put(t, map[string]any{"installs": []any{}, "after_update_script": ""}); blank.Script == nil || *blank.Script != "" {
			t.Fatalf("an empty script is one: %+v", blank)
		}

		restored := h.restore(t, 2)
		if restored.Version != 6 || *restored.Script != script || restored.InstallsHash != second.InstallsHash {
			t.Fatalf("restored 2: %+v", restored)
		}
		if restored = h.restore(t, 1); restored.Version != 7 || restored.Script != nil || restored.InstallsHash != first.InstallsHash || len(restored.Installs) != 2 {
			t.Fatalf("restored 1: %+v", restored)
		}
		refs := h.signals(t, 1)
		if len(refs) != 7 {
			t.Fatalf("signals: %v", refs)
		}
		for i, ref := range refs {
			if !strings.HasPrefix(ref, fmt.Sprintf(`{"config_id":%d,"version":%d,"installs_hash_b64":"`, first.ID, i+1)) {
				t.Errorf("signal %d: %s", i, ref)
			}
		}
		if !strings.Contains(refs[6], first.InstallsHash) {
			t.Errorf("signal with another digest: %s, want %s", refs[6], first.InstallsHash)
		}
		h.checkHistories(t)
	})
}

// checkHistories looks at the seven versions made above.
func (h *house) checkHistories(t *testing.T) {
	t.Helper()
	const path = "/apiv1/users/1/devices/1/install-config-histories"
	list := want[[]History](t, h.call(t, asUser, "GET", path+"?limit=6", nil), 200)
	if len(list.Data) != 6 || list.Meta.Total != 7 || list.Data[0].Version != 7 || list.Data[0].ChangeNote != "restored version 1" {
		t.Fatalf("histories: %+v %+v", list.Data, list.Meta)
	}
	list = want[[]History](t, h.call(t, asUser, "GET", path+"?offset=6", nil), 200)
	if len(list.Data) != 1 || list.Data[0].Version != 1 || list.Data[0].ChangeNote != "first" || list.Data[0].UpdatedBy != "user 1" || list.Data[0].CreatedAt != 1700000000 {
		t.Fatalf("the oldest: %+v", list.Data)
	}
	if list = want[[]History](t, h.call(t, asUser, "GET", path+"?offset=9223372036854775807", nil), 200); len(list.Data) != 0 {
		t.Fatalf("far behind: %+v", list.Data)
	}
	one := want[Version](t, h.call(t, asUser, "GET", path+"?version=1", nil), 200).Data
	if one.Version != 1 || len(one.Installs) != 2 || one.Installs[0].To[1] != "/etc/ssl/web.key" || one.InstallsHash != list0(t, h, path).InstallsHash {
		t.Fatalf("version 1: %+v", one)
	}
	for query, status := range map[string]int{"?version=8": 404, "?version=0": 400, "?limit=0": 400, "?limit=1001": 400, "?offset=-1": 400} {
		want[any](t, h.call(t, asUser, "GET", path+query, nil), status)
	}
}

func list0(t *testing.T, h *house, path string) History {
	t.Helper()
	return want[[]History](t, h.call(t, asUser, "GET", path, nil), 200).Data[0]
}

func (h *house) put(t testing.TB, body any) Config {
	t.Helper()
	return want[Config](t, h.call(t, asUser, "PUT", configPath, body), 200).Data
}

func (h *house) restore(t testing.TB, version int) Config {
	t.Helper()
	return want[Config](t, h.call(t, asUser, "POST", configPath+"/restore", map[string]int{"version": version}), 200).Data
}

// Every refusal leaves the device as it was: no version, no signal.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		h.put(t, twoSteps)
		item := func(members string) string {
			return `{"installs":[{"id":"a","type":"copy","ob_type":"cert","ob_id":7,"from":["private.key"],"to":["/k"]` + members + `}]}`
		}
		for _, c := range []struct {
			body string
			what string // the member that the answer must name
		}{
			{`{}`, "installs"},
			{`{"installs":null}`, "installs"},
			{`{"installs":{}}`, "installs"},
			{`{"installs":[7]}`, "installs[0]"},
			{`{"installs":[],"unknown":1}`, "unknown"},
			{`{"installs":[],"after_update_script":7}`, "after_update_script"},
			{`{"installs":[],"after_update_script":"` + strings.Repeat("x", maxScript+1) + `"}`, "after_update_script"},
			{`{"installs":[],"after_update_script":"a\u0000b"}`, "NUL"},
			{`{"installs":[],"change_note":"` + strings.Repeat("x", 1001) + `"}`, "change_note"},
			{item(`,"ob_id":"7"`), "installs[0].ob_id"},
			{item(`,"ob_id":7.5`), "installs[0].ob_id"},
			{item(`,"ob_id":99999999999999999999`), "ob_id"},
			{item(`,"unknown":1`), "installs[0].unknown"},
			{item(`,"to":"/k"`), "installs[0].to"},
			{item(`,"to":["../../etc/cron.d/x"]`), "installs[0].to"},
			{item(`,"to":[7]`), "installs[0].to[0]"},
			{item(`,"from":[null]`), "installs[0].from[0]"},
			{item(`,"verify":"x"`), "installs[0].verify"},
			{item(`,"cmd":"id"`), "installs[0].cmd"},
			{`not JSON`, "JSON"},
		} {
			w := h.call(t, asUser, "PUT", configPath, c.body)
			if e := want[any](t, w, 400).Error; e.Code != 5000 || !strings.Contains(e.What, c.what) {
				t.Errorf("%.80s: %s, want a 5000 that names %s", c.body, w.Body, c.what)
			}
		}
		for _, body := range []string{`{}`, `{"version":0}`, `{"version":-1}`, `{"version":"1"}`, `{"version":1.5}`} {
			want[any](t, h.call(t, asUser, "POST", configPath+"/restore", body), 400)
		}
		want[any](t, h.call(t, asUser, "POST", configPath+"/restore", `{"version":2}`), 404)
		if refs := h.signals(t, 1); len(refs) != 1 {
			t.Errorf("signals: %v", refs)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_versions"); n != 1 {
			t.Errorf("%d versions", n)
		}
	})
}

// A device of another user is answered as one that does not exist, byte for
// byte, on every route (threats.md scenario 1).
func TestForeignDevice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		h.put(t, twoSteps)
		for _, c := range []struct{ method, suffix, body string }{
			{"GET", "install-config", ""},
			{"PUT", "install-config", `{"installs":[]}`},
			{"POST", "install-config/restore", `{"version":1}`},
			{"GET", "install-config-histories", ""},
			{"GET", "install-config-histories?version=1", ""},
		} {
			foreign := h.call(t, asOther, c.method, "/apiv1/me/devices/1/"+c.suffix, c.body)
			absent := h.call(t, asOther, c.method, "/apiv1/me/devices/999/"+c.suffix, c.body)
			if foreign.Code != http.StatusNotFound || foreign.Body.String() != absent.Body.String() {
				t.Errorf("%s %s: %d %s, absent: %s", c.method, c.suffix, foreign.Code, foreign.Body, absent.Body)
			}
			want[any](t, h.call(t, asOther, c.method, "/apiv1/users/1/devices/1/"+c.suffix, c.body), 403)
			want[any](t, h.call(t, "X-None: 1", c.method, "/apiv1/me/devices/1/"+c.suffix, c.body), 401)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_versions"); n != 1 {
			t.Errorf("%d versions", n)
		}
	})
}
