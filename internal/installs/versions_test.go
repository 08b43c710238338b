package installs

import (
	"fmt"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// again takes a device away and registers it with the same public id.
func (h *house) again(t *testing.T, user, device, row int64) {
	t.Helper()
	h.exec(t, "DELETE FROM devices WHERE id = $1", device)
	h.exec(t, `INSERT INTO devices (id, user_id, public_id, public_key, status, session_no, name, platform, model, app_version,
		agent, agent_version, ip, user_agent, created_at, updated_at, last_seen_at)
		VALUES ($1, $2, $3, $4, 'ACTIVE', 1, '', '', '', '', '', '', '', '', 0, 0, 0)`, row, user, publicID(device%100), make([]byte, 32))
}

// An agent keeps its configuration when its device is deleted and registered
// anew, and takes every number that is not above its own for old.
func TestVersionsOutliveTheDevice(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		path := func(row int64) string { return fmt.Sprintf("/apiv1/me/devices/%d/install-config", row) }
		last := int64(0)
		for row := int64(1); row <= 301; row += 100 { // one agent, four registrations
			empty := want[Config](t, h.call(t, asUser, "GET", path(row), nil), 200).Data
			if empty.Version != 0 || len(empty.Installs) != 0 {
				t.Errorf("row %d has a configuration before it has one: %+v", row, empty)
			}
			for range 3 {
				last++
				got := want[Config](t, h.call(t, asUser, "PUT", path(row), `{"installs":[]}`), 200).Data
				if got.Version != last {
					t.Fatalf("row %d: version %d, want %d", row, got.Version, last)
				}
			}
			want[any](t, h.call(t, asUser, "POST", path(row)+"/restore", `{"version":1}`), map[bool]int{true: 200, false: 404}[row == 1])
			if row == 1 {
				last++
			}
			h.again(t, 1, row, row+100)
		}
		if got := want[Config](t, h.call(t, asUser, "PUT", path(2), `{"installs":[]}`), 200).Data.Version; got != 1 {
			t.Errorf("another device begins with %d", got)
		}
		h.exec(t, "UPDATE devices SET user_id = 2 WHERE id = 401")
		if got := want[Config](t, h.call(t, asOther, "PUT", path(401), `{"installs":[]}`), 200).Data.Version; got != 1 {
			t.Errorf("another user's device of the same public id begins with %d", got)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_counters"); n != 3 {
			t.Errorf("%d numbers remembered for three public ids", n)
		}
	})
}

// A user who deletes devices and registers others for ever fills no table, and
// no number falls for it.
func TestForgottenVersions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		for n := range keepCounters + 30 {
			h.exec(t, "INSERT INTO install_config_counters (user_id, public_id, version, written_at) VALUES (1, $1, $2, $3)", fmt.Sprintf("gone-%04d", n), 5000-n, n)
		}
		h.put(t, `{"installs":[]}`)
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_counters WHERE public_id LIKE 'gone-%'"); n != keepCounters {
			t.Errorf("%d numbers remembered, want %d", n, keepCounters)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_counters WHERE public_id < 'gone-0030' AND public_id LIKE 'gone-%'"); n != 0 {
			t.Errorf("%d of the oldest are remembered", n)
		}
		w := h.call(t, asUser, "PUT", "/apiv1/me/devices/2/install-config", `{"installs":[]}`)
		if got := want[Config](t, w, 200).Data.Version; got != 5001 {
			t.Errorf("a device without a number begins with %d, which may be one that was forgotten", got)
		}
		if got := h.put(t, `{"installs":[]}`).Version; got != 2 {
			t.Errorf("a device that has one goes on with %d", got)
		}
	})
}

// The last 50 versions of a device are kept, and 8 MiB of them.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHouse(t, db)
		for range keepVersions + 5 {
			h.put(t, `{"installs":[]}`)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_versions WHERE device_id = 1"); n != keepVersions {
			t.Errorf("%d versions kept", n)
		}
		for version, status := range map[int]int{5: 404, 6: 200, 55: 200} {
			body := fmt.Sprintf(`{"version":%d}`, version)
			want[any](t, h.call(t, asUser, "GET", "/apiv1/me/devices/1/install-config-histories?"+fmt.Sprintf("version=%d", version), nil), status)
			if status == 404 {
				want[any](t, h.call(t, asUser, "POST", configPath+"/restore", body), status)
			}
		}
		large := map[string]any{"installs": []any{}, "after_update_script": strings.Repeat("x", maxScript)}
		for range keepBytes/maxScript + 3 {
			h.put(t, large)
		}
		if n := h.count(t, "SELECT COUNT(*) FROM install_config_versions WHERE device_id = 1"); n != keepBytes/maxScript-1 && n != keepBytes/maxScript {
			t.Errorf("%d large versions kept", n)
		}
		if n := h.count(t, "SELECT SUM(bytes) FROM install_config_versions WHERE device_id = 1"); n > keepBytes {
			t.Errorf("%d bytes kept", n)
		}
	})
}
