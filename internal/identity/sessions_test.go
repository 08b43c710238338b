package identity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// TestSessionsAreListedAndRevoked: two nodes on one database, and another user.
func TestSessionsAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		laptop := h.signIn(t, func(r *http.Request) { r.Header.Set("User-Agent", "laptop") })
		phone := h.signIn(t, func(r *http.Request) { r.Header.Set("User-Agent", "phone") })
		makeUser(t, h, bob)
		foreign, _, _ := strings.Cut(h.login(bob, adaPass).Header().Get("Set-Cookie"), ";")
		path := fmt.Sprintf("/apiv1/users/%d/sessions", h.ada)

		w := h.call("GET", path, "", cookie(laptop))
		list := decode[[]Session](t, w)
		if len(list) != 2 || list[0].UserAgent != "phone" || list[0].Current || !list[1].Current || !strings.Contains(w.Body.String(), `"meta":{"total":2,"offset":0,"limit":100}`) {
			t.Fatalf("%s", w.Body)
		}
		if page := decode[[]Session](t, h.call("GET", "/apiv1/me/sessions?limit=1&offset=1", "", cookie(laptop))); len(page) != 1 || page[0].ID != list[1].ID {
			t.Errorf("second page: %+v", page)
		}
		strangers := decode[[]Session](t, h.call("GET", "/apiv1/me/sessions", "", cookie(foreign)))
		absent := h.call("DELETE", path+"/999999", "", cookie(laptop))
		theirs := h.call("DELETE", fmt.Sprintf("%s/%d", path, strangers[0].ID), "", cookie(laptop))
		if absent.Code != http.StatusNotFound || theirs.Code != absent.Code || theirs.Body.String() != absent.Body.String() || !authenticated(t, h, foreign) {
			t.Errorf("foreign: %d %s; absent: %d %s", theirs.Code, theirs.Body, absent.Code, absent.Body)
		}
		refused(t, h.call("GET", path, "", cookie(foreign)), 403, 5022)
		refused(t, h.call("DELETE", path, "", cookie(foreign)), 403, 5022)
		refused(t, h.call("GET", path, ""), 401, 5018)

		if w := h.call("DELETE", fmt.Sprintf("%s/%d", path, list[0].ID), "", cookie(laptop)); w.Code != http.StatusNoContent || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if authenticated(t, h, phone) || !authenticated(t, h, laptop) {
			t.Error("the wrong session ended")
		}
		w = h.call("DELETE", fmt.Sprintf("%s/%d", path, list[1].ID), "", cookie(laptop))
		if w.Code != http.StatusNoContent || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") || authenticated(t, h, laptop) {
			t.Errorf("its own: %d %q", w.Code, w.Header().Get("Set-Cookie"))
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'session.revoke' AND user_id = $1", h.ada); n != 2 {
			t.Errorf("%d audit entries", n)
		}
	})
}

func TestSignOutEverywhere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := build(t, db)
		makeUser(t, h, bob)
		foreign, _, _ := strings.Cut(h.login(bob, adaPass).Header().Get("Set-Cookie"), ";")
		others, pair := []string{h.signIn(t), h.signIn(t)}, h.signIn(t)
		if w := h.call("DELETE", "/apiv1/me/sessions?keep_current=true", "", cookie(pair)); w.Code != http.StatusNoContent || w.Header().Get("Set-Cookie") != "" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, other := range others {
			if authenticated(t, h, other) {
				t.Error("another session is left")
			}
		}
		if !authenticated(t, h, pair) {
			t.Fatal("the session itself ended")
		}
		w := h.call("DELETE", "/apiv1/me/sessions", "", cookie(pair))
		if w.Code != http.StatusNoContent || !strings.Contains(w.Header().Get("Set-Cookie"), "Max-Age=0") || authenticated(t, h, pair) || !authenticated(t, h, foreign) {
			t.Errorf("%d %q", w.Code, w.Header().Get("Set-Cookie"))
		}
		if n := number(t, db, "SELECT COUNT(*) FROM audit_log WHERE action = 'session.revoke_all' AND user_id = $1", h.ada); n != 2 {
			t.Errorf("%d audit entries", n)
		}
	})
}
