package installs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func (h *house) patch(t testing.TB, body string) Patched {
	t.Helper()
	return want[Patched](t, h.call(t, asKey, "POST", patchBase+publicID(1), body), 200).Data
}

func (h *house) config(t testing.TB) Config {
	t.Helper()
	return want[Config](t, h.call(t, asUser, "GET", configPath, nil), 200).Data
}

// threeSteps are two copies of certificate 7 and an import of CA 3.
const threeSteps = `{"installs":[
	{"id":"web","type":"copy","ob_type":"cert","ob_id":7,"from":["fullchain.pem","private.key"],"to":["/w/c","/w/k"]},
	{"id":"mail","type":"copy","ob_type":"cert","ob_id":7,"from":["bundle.pfx"],"to":["/m/p"]},
	{"id":"ca","type":"import_ca","ob_type":"ca","ob_id":3,"from":["ca.pem"]},
	{"id":"end","type":"exec","cmd":"true"}]}`

func TestPatches(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		h.put(t, threeSteps)
		version := int64(1)
		for _, c := range []struct {
			name, body string
			holds      func(Config) bool
		}{
			{"all that match", `[{"ob_type":"cert","ob_id":7,"enabled":false}]`,
				func(c Config) bool {
					return !*c.Installs[0].Enabled && !*c.Installs[1].Enabled && *c.Installs[2].Enabled
				}},
			{"one by id", `[{"ob_type":"cert","ob_id":7,"id":"web","enabled":true}]`,
				func(c Config) bool { return *c.Installs[0].Enabled && !*c.Installs[1].Enabled }},
			{"a text for one file", `[{"ob_type":"cert","ob_id":7,"id":"mail","to":"/m/new"}]`,
				func(c Config) bool { return slices.Equal(c.Installs[1].To, []string{"/m/new"}) }},
			{"a text for several is a folder", `{"patches":[{"ob_type":"cert","ob_id":7,"id":"web","to":"/etc/ssl/"}]}`,
				func(c Config) bool {
					return slices.Equal(c.Installs[0].To, []string{"/etc/ssl/fullchain.pem", "/etc/ssl/private.key"})
				}},
			{"a Windows folder", `{"patches":[{"ob_type":"cert","ob_id":7,"id":"web","to":"C:\\ssl"}]}`,
				func(c Config) bool {
					return slices.Equal(c.Installs[0].To, []string{`C:\ssl\fullchain.pem`, `C:\ssl\private.key`})
				}},
			{"the empty text skips files", `[{"ob_type":"cert","ob_id":7,"to":""}]`,
				func(c Config) bool {
					return slices.Equal(c.Installs[0].To, []string{"", ""}) && slices.Equal(c.Installs[1].To, []string{""})
				}},
			{"a list", `[{"ob_type":"cert","ob_id":7,"id":"web","to":["/w/c",""]}]`,
				func(c Config) bool { return slices.Equal(c.Installs[0].To, []string{"/w/c", ""}) }},
			{"the empty list skips the item", `[{"ob_type":"cert","ob_id":7,"id":"web","to":[]}]`,
				func(c Config) bool { return c.Installs[0].To != nil && len(c.Installs[0].To) == 0 }},
			{"empty and unknown members change nothing",
				`[{"ob_type":"cert","ob_id":7,"cmd":"","cmd_argv":[],"timeout_ms":0,"env":{},"type":"","id":"","to":null,"enabled":null,"from":["x"],"color":1}]`,
				func(c Config) bool { return c.Installs[0].Type == "copy" && c.Installs[0].Cmd == nil }},
			{"a command on a CA", `[{"ob_type":"ca","ob_id":3,"cmd_argv":["update-ca"],"timeout_ms":9,"env":{"A":"b"}}]`,
				func(c Config) bool {
					it := c.Installs[2]
					return string(it.Cmd) == `["update-ca"]` && it.TimeoutMS == 9 && it.Env["A"] == "b"
				}},
			{"replaced by a shell text", `[{"ob_type":"ca","ob_id":3,"cmd":"update-ca"}]`,
				func(c Config) bool { return string(c.Installs[2].Cmd) == `"update-ca"` }},
			{"script beside patches", `{"patches":[{"ob_type":"ca","ob_id":3,"enabled":false}],"after_update_script":"x\r\n","other":1}`,
				func(c Config) bool { return *c.Script == "x\r\n" && !*c.Installs[2].Enabled }},
			{"patches keep the script", `[{"ob_type":"ca","ob_id":3,"enabled":true}]`,
				func(c Config) bool { return *c.Script == "x\r\n" }},
			{"script alone", `{"after_update_script":"y"}`, func(c Config) bool { return *c.Script == "y" }},
			{"null clears it", `{"patches":null,"after_update_script":null}`, func(c Config) bool { return c.Script == nil }},
			{"empty patches beside a script", `{"patches":[],"after_update_script":"z"}`, func(c Config) bool { return *c.Script == "z" }},
		} {
			done := h.patch(t, c.body)
			version++
			config := h.config(t)
			if config.Version != version || done.Version != version || done.ConfigID != config.ID || done.InstallsHash != config.InstallsHash || !c.holds(config) {
				t.Fatalf("%s: answer %+v, config %+v", c.name, done, config)
			}
			if config.UpdatedBy != "key 9" {
				t.Errorf("%s: written by %q", c.name, config.UpdatedBy)
			}
		}
		if refs := h.signals(t, 1); int64(len(refs)) != version {
			t.Errorf("%d signals for %d versions", len(refs), version)
		}
	})
}

// All or nothing: whatever is refused leaves version, signals and history.
func TestRefusedPatches(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		h.put(t, threeSteps)
		const good = `{"ob_type":"cert","ob_id":7,"enabled":false}`
		for _, c := range []struct {
			body   string
			status int
			what   string
		}{
			{`[` + good + `,{"ob_type":"cert","ob_id":8}]`, 404, "patches[1]"},
			{`[` + good + `,{"ob_type":"cert","ob_id":7,"id":"ca"}]`, 404, "patches[1]"},
			{`[` + good + `,{"ob_type":"key","ob_id":7}]`, 404, "patches[1]"},
			{`[` + good + `,{"ob_type":"cert"}]`, 400, "patches[1].ob_id"},
			{`[` + good + `,{"ob_id":7}]`, 400, "patches[1].ob_type"},
			{`[{"ob_type":"","ob_id":7}]`, 400, "patches[0].ob_type"},
			{`[{"ob_type":"cert","ob_id":"7"}]`, 400, "patches[0].ob_id"},
			{`[{"ob_type":"cert","ob_id":7.5}]`, 400, "patches[0].ob_id"},
			{`[{"ob_type":"cert","ob_id":-7}]`, 400, "patches[0].ob_id"},
			{`[{"OB_TYPE":"cert","ob_id":7}]`, 400, "patches[0].ob_type"},
			{`[{"ob_type":"cert","ob_id":7,"enabled":"no"}]`, 400, "patches[0].enabled"},
			{`[{"ob_type":"cert","ob_id":7,"to":7}]`, 400, "patches[0].to"},
			{`[{"ob_type":"cert","ob_id":7,"id":"web","to":["/a",null]}]`, 400, "patches[0].to"},
			{`[{"ob_type":"cert","ob_id":7,"id":"web","to":["/a"]}]`, 400, "installs[0].to"},
			{`[{"ob_type":"cert","ob_id":7,"id":"web","to":"relative"}]`, 400, "installs[0].to"},
			{`[{"ob_type":"cert","ob_id":7,"to":"../../etc/cron.d/x"}]`, 400, "to"},
			{`[{"ob_type":"cert","ob_id":7,"id":"mail","to":"/m/"}]`, 400, "installs[1].to"},
			{`[{"ob_type":"cert","ob_id":7,"cmd":"id"}]`, 400, "installs[0].cmd"},
			{`[{"ob_type":"cert","ob_id":7,"cmd_argv":["id"]}]`, 400, "installs[0].cmd"},
			{`[{"ob_type":"cert","ob_id":7,"env":{"A":"b"}}]`, 400, "installs[0].env"},
			{`[{"ob_type":"cert","ob_id":7,"type":"delete"}]`, 400, "installs[0].type"},
			{`[{"ob_type":"ca","ob_id":3,"cmd":{"a":1}}]`, 400, "cmd"},
			{`[{"ob_type":"ca","ob_id":3,"env":{"A":1}}]`, 400, "patches[0].env"},
			{`[7]`, 400, "patches[0]"},
			{`[null]`, 400, "patches[0]"},
			{`[]`, 400, "patches"},
			{`{}`, 400, "patches"},
			{`{"patches":[]}`, 400, "patches"},
			{`{"patches":null}`, 400, "patches"},
			{`{"patches":{}}`, 400, "patches"},
			{`{"patches":[` + good + `],"after_update_script":7}`, 400, "after_update_script"},
			{`"text"`, 400, "body"},
			{`null`, 400, "body"},
			{``, 400, "body"},
			{`[`, 400, "JSON"},
			{`{"after_update_script":"a\u0000"}`, 400, "NUL"},
		} {
			w := h.call(t, asKey, "POST", patchBase+publicID(1), c.body)
			if e := want[any](t, w, c.status).Error; !strings.Contains(e.What, c.what) {
				t.Errorf("%s: %s, want it to name %s", c.body, w.Body, c.what)
			}
		}
		want[any](t, h.call(t, asKey, "POST", patchBase+publicID(2), `[`+good+`]`), 404) // a device without a config
		if config := h.config(t); config.Version != 1 || !*config.Installs[0].Enabled {
			t.Errorf("changed: %+v", config)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_configs"); n != 1 || len(h.signals(t, 1)) != 1 {
			t.Errorf("%d configs, signals %v", n, h.signals(t, 1))
		}
	})
}

// Scenario 3 of threats.md: what could run on a device comes only from who may
// write it, is stored byte for byte with its author in history and audit log,
// and nothing of it runs here.
func TestScriptsAreStoredNotRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		marker := t.TempDir() + "/ran"
		script := fmt.Sprintf("@@@BEGIN posix.sh\ntouch %s\n@@@END\n$(touch %s) `touch %s`\n", marker, marker, marker)
		steps := []map[string]any{{"id": "x", "type": "exec", "ob_type": "ca", "ob_id": 3, "cmd": []string{"touch", marker}}}
		h.put(t, map[string]any{"installs": steps, "after_update_script": script})

		body := fmt.Sprintf(`{"patches":[{"ob_type":"ca","ob_id":3,"cmd":"touch %s"}],"after_update_script":"evil"}`, marker)
		for as, status := range map[string]int{
			"Authorization: Bearer ak_devices:*":                403, // another right
			"Authorization: Bearer ak_certificates:1":           403,
			"Authorization: Bearer ak_ForInstallConfigUpdate:2": 404, // the right for another device
			asUser:   401, // keys alone
			asDevice: 401,
		} {
			want[any](t, h.call(t, as, "POST", patchBase+publicID(1), body), status)
		}
		want[any](t, h.call(t, "Authorization: Bearer ak_devices:1", "PUT", configPath, `{"installs":[],"after_update_script":"evil"}`), 403) // reads only
		foreign := h.call(t, asKey, "POST", patchBase+publicID(3), body)
		absent := h.call(t, asKey, "POST", patchBase+publicID(4), body)
		if foreign.Code != 404 || foreign.Body.String() != absent.Body.String() {
			t.Errorf("foreign device: %d %s, absent: %s", foreign.Code, foreign.Body, absent.Body)
		}
		want[any](t, h.call(t, asKey, "POST", patchBase+"nonsense", body), 400)
		if config := h.config(t); config.Version != 1 || *config.Script != script {
			t.Fatalf("after refused changes: %+v", config)
		}

		want[Patched](t, h.call(t, "Authorization: Bearer ak_ForInstallConfigUpdate:1", "POST", patchBase+publicID(1), body), 200)
		want[Config](t, h.call(t, asDevice, "GET", selfPath, nil), 200)
		h.restore(t, 1)
		histories := want[[]History](t, h.call(t, asUser, "GET", "/apiv1/me/devices/1/install-config-histories", nil), 200).Data
		if len(histories) != 3 || histories[0].UpdatedBy != "user 1" || histories[1].UpdatedBy != "key 9" || histories[2].UpdatedBy != "user 1" {
			t.Errorf("histories: %+v", histories)
		}
		for action, actor := range map[string]string{"install_config.put": "session 1", "install_config.patch": "key 9", "install_config.restore": "session 1"} {
			if n := h.count(t, "SELECT COUNT(*) FROM audit_log WHERE action = $1 AND actor = $2 AND user_id = 1 AND object = 'device 1'", action, actor); n != 1 {
				t.Errorf("%s by %s is %d times in the audit log", action, actor, n)
			}
		}
		if n := h.count(t, "SELECT COUNT(*) FROM audit_log WHERE detail LIKE '%touch%' OR detail LIKE '%evil%'"); n != 0 {
			t.Error("the audit log holds script text, which may hold secrets")
		}
		if got := h.config(t).Script; got == nil || *got != script {
			t.Errorf("the script changed: %v", got)
		}
		if exists(marker) {
			t.Error("the server ran it")
		}
	})
}

// Writers of every kind at once: each success is one version and one signal,
// no number is used twice, and no patch is lost.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		const each = 8
		var wg sync.WaitGroup
		for range each { // first writers race for the row, too
			wg.Go(func() { h.call(t, asKey, "POST", patchBase+publicID(1), `{"after_update_script":"s"}`) })
		}
		wg.Wait()
		if config := h.config(t); config.Version != each {
			t.Fatalf("version %d after %d writes", config.Version, each)
		}
		h.put(t, threeSteps)
		for range each {
			wg.Go(func() { h.call(t, asKey, "POST", patchBase+publicID(1), `[{"ob_type":"cert","ob_id":7,"to":""}]`) })
			wg.Go(func() {
				h.call(t, asKey, "POST", patchBase+publicID(1), `[{"ob_type":"ca","ob_id":3,"enabled":false}]`)
			})
			wg.Go(func() { h.call(t, asKey, "POST", patchBase+publicID(1), `{"after_update_script":"t"}`) })
		}
		wg.Wait()
		config := h.config(t)
		if config.Version != 4*each+1 || *config.Script != "t" || *config.Installs[2].Enabled || config.Installs[0].To[0] != "" {
			t.Errorf("%+v", config)
		}
		for i, ref := range h.signals(t, 1) {
			if !strings.Contains(ref, fmt.Sprintf(`"version":%d,`, i+1)) {
				t.Errorf("signal %d: %s", i, ref)
			}
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_versions"); n != 4*each+1 {
			t.Errorf("%d versions kept", n)
		}
	})
}
