package devices_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

func deleteLine(user, id int64) string {
	return fmt.Sprintf("DELETE /apiv1/users/%d/devices/%d", user, id)
}

func (w *world) ids(credential, query string) (ids []int64, total int64) {
	w.t.Helper()
	a := w.call(credential, "GET /apiv1/me/devices"+query, nil).want(w.t, 200, 0)
	var list struct {
		Data []devices.DeviceRecord `json:"data"`
		Meta struct {
			Total int64 `json:"total"`
		} `json:"meta"`
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || list.Data == nil {
		w.t.Fatalf("%v: %s", err, a.body)
	}
	for _, d := range list.Data {
		ids = append(ids, d.ID)
	}
	return ids, list.Meta.Total
}

func TestListAndDelete(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		if ids, total := w.ids(session(w.user), ""); len(ids) != 0 || total != 0 {
			t.Errorf("%v of %d", ids, total)
		}
		key := fmt.Sprintf("ak_%d_ForDeviceAuthenticate_*_authenticate", w.user)
		var made []int64
		for i := range 12 {
			a := w.call(key, "POST /apiv1/me/devices", m{"device_public_id": fmt.Sprintf("%08d%s", i, publicID[8:]), "dev_pk": devPK}).want(t, 201, 0)
			made = append(made, a.id("device.id"))
		}
		foreign := w.register(w.other, nil).want(t, 201, 0)
		ids, total := w.ids(session(w.user), "?limit=5&offset=1")
		if total != 12 || len(ids) != 5 || ids[0] != made[10] || ids[4] != made[6] {
			t.Errorf("page: %v of %d, made %v", ids, total, made)
		}
		for _, query := range []string{"?limit=0", "?limit=1001", "?offset=-1", "?limit=x"} {
			w.call(session(w.user), "GET /apiv1/me/devices"+query, nil).want(t, 400, 5000)
		}
		one := fmt.Sprintf("ak_%d_devices_%d_read", w.user, made[1])
		if ids, total := w.ids(one, ""); total != 1 || len(ids) != 1 || ids[0] != made[1] {
			t.Errorf("key for one: %v of %d", ids, total)
		}
		if ids, _ := w.ids(fmt.Sprintf("ak_%d_devices_%d_read", w.user, foreign.id("device.id")), ""); len(ids) != 0 {
			t.Errorf("key for a foreign device: %v", ids)
		}
		w.call(fmt.Sprintf("ak_%d_devices_*_write", w.user), "GET /apiv1/me/devices", nil).want(t, 403, 5022)

		// A foreign object, an absent one and one that is no id answer alike.
		base := fmt.Sprintf("DELETE /apiv1/users/%d/devices/", w.user)
		absent := w.call(session(w.user), base+"999999", nil).want(t, 404, 5003)
		for _, id := range []string{strconv.FormatInt(foreign.id("device.id"), 10), "+1x", "9223372036854775808", "me", "%31x"} {
			if a := w.call(session(w.user), base+id, nil).want(t, 404, 5003); a.body != absent.body {
				t.Errorf("%s: %s, absent: %s", id, a.body, absent.body)
			}
		}
		w.call(session(w.other), deleteLine(w.user, made[0]), nil).want(t, 403, 5022)
		w.call(one, deleteLine(w.user, made[1]), nil).want(t, 403, 5022)
		w.call(fmt.Sprintf("ak_%d_devices_%d_write", w.user, made[1]), deleteLine(w.user, made[0]), nil).want(t, 404, 5003)
		w.call(session(w.user), deleteLine(w.user, made[0]), nil).want(t, 204, 0)
		w.call(session(w.user), deleteLine(w.user, made[0]), nil).want(t, 404, 5003)
		if _, total := w.ids(session(w.user), ""); total != 11 {
			t.Errorf("%d left", total)
		}
		w.notify(foreign.text("session.access_token")).want(t, 204, 0)
	})
}

func TestByPublicIDAndTheFixed501(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		a := w.register(w.user, nil).want(t, 201, 0)
		path := "GET /apiv1/me/devices/by-public-id/"
		for _, id := range []string{publicID, strings.ToLower(publicID)} {
			if got := w.call(session(w.user), path+id, nil).want(t, 200, 0); got.id("id") != a.id("device.id") {
				t.Errorf("%s: %s", id, got.body)
			}
		}
		w.call(session(w.other), path+publicID, nil).want(t, 404, 5003)
		w.call(session(w.user), path+"f"+publicID[1:], nil).want(t, 404, 5003)
		w.call(session(w.user), path+"nonsense", nil).want(t, 400, 5000)
		w.call(fmt.Sprintf("ak_%d_devices_*_read", w.user), path+publicID, nil).want(t, 200, 0)
		w.call(fmt.Sprintf("ak_%d_devices_77777_read", w.user), path+publicID, nil).want(t, 404, 5003)

		item := fmt.Sprintf("GET /apiv1/users/%d/devices/", w.user)
		for _, id := range []string{"1", "99999", "x"} {
			w.call(session(w.user), item+id, nil).want(t, 501, 5010)
		}
		w.call("", item+"1", nil).want(t, 401, 5018)
		w.call(session(w.other), item+"1", nil).want(t, 403, 5022)
	})
}

func TestNotify(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		a := w.register(w.user, nil).want(t, 201, 0)
		token, path := a.text("session.access_token"), "POST /apiv1/devices/self/notify"
		event := m{"type": "agent_version", "agent": "cert-ctrl", "version": "1.2.3", "device_public_id": publicID}
		w.call(token, path, m{"schema": "certctrl.device.notify.v1", "events": []any{m{"type": "later", "agent": 5}, event}, "more": 1}).want(t, 204, 0)
		got := w.call(session(w.user), "GET /apiv1/me/devices/by-public-id/"+publicID, nil)
		if got.text("agent") != "cert-ctrl" || got.text("agent_version") != "1.2.3" {
			t.Errorf("device: %s", got.body)
		}
		for _, body := range []any{
			m{}, m{"events": m{}}, m{"events": nil}, m{"events": "x"}, m{"events": []any{1}}, "x", "",
			m{"events": []any{m{"type": "agent_version"}}}, m{"events": []any{m{"type": "agent_version", "agent": "a", "version": 5}}},
			m{"events": []any{m{"type": "agent_version", "agent": "a", "version": strings.Repeat("1", 201)}}},
		} {
			w.call(token, path, body).want(t, 400, 5000)
		}
		w.call(session(w.user), path, m{"events": []any{}}).want(t, 401, 5018)
		w.call(fmt.Sprintf("ak_%d_devices_*_write", w.user), path, m{"events": []any{}}).want(t, 401, 5018)
	})
}

func TestListIsServedByAnIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t))
	rows, err := w.db.Reader().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+devices.ListQuery, w.user, nil, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan.String(), "USING INDEX devices_user (user_id=?)") || strings.Contains(plan.String(), "TEMP B-TREE") {
		t.Errorf("plan: %s", plan.String())
	}
}
