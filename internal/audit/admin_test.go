package audit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/web"
)

// What an administrator does to a user is in both logs: in the user's without
// the address that the administrator came from.
func TestAdministratorsAreRecorded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		admin := access.With(t.Context(), &access.Caller{Kind: access.KindSession, UserID: 3, SessionID: 7, Roles: []string{access.RoleAdmin}})
		h.record(admin, "user.disable", 1)
		h.record(admin, "thing.do", 3)
		h.record(session(t, 2), "thing.do", 1)
		for user, want := range map[int64]string{1: "session 7, administrator 3", 3: "session 7, session 7"} {
			records, total, err := h.List(t.Context(), user, audit.Filter{}, web.Page{Limit: 10})
			if err != nil || total != 2 || len(records) != 2 {
				t.Fatalf("user %d: %d of %d, %v", user, len(records), total, err)
			}
			if got := records[0].Actor + ", " + records[1].Actor; got != want {
				t.Errorf("user %d: by %s, want %s", user, got, want)
			}
		}
		h.whole()
	})
}

// Administrators read what belongs to nobody, filtered and in pages.
func TestAdminList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		h.record(session(t, 1), "thing.do", 1)
		for i := range 40 { // over the chains, whose numbers are counted in each
			h.now = h.now.Add(time.Minute)
			h.record(t.Context(), []string{"session.sign_in_refused", "user.setup_refused"}[i%2], 0)
		}
		get := func(query string, roles ...string) (status int, records []audit.AdminRecord, total int64) {
			t.Helper()
			m := web.New(web.Options{Log: discard(), Auth: web.Authenticator{Session: func(*http.Request) (*access.Caller, error) {
				return &access.Caller{Kind: access.KindSession, UserID: 3, SessionID: 7, Roles: roles}, nil
			}}})
			h.Mount(m)
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/apiv1/admin/audit-log"+query, nil))
			var answer struct {
				Data []audit.AdminRecord
				Meta web.Meta
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			return w.Code, answer.Data, answer.Meta.Total
		}
		if status, _, _ := get(""); status != 403 {
			t.Errorf("who is no administrator gets %d", status)
		}
		seen := map[string]bool{}
		for _, page := range []string{"?limit=25", "?limit=25&offset=25"} {
			_, records, total := get(page, access.RoleAdmin)
			if total != 41 { // and that the log of user 1 began
				t.Errorf("%s: %d", page, total)
			}
			for i, r := range records {
				id, _ := json.Marshal([]int64{r.Chain, r.ID})
				if seen[string(id)] || r.UserID != 0 || i > 0 && r.At > records[i-1].At {
					t.Errorf("%s: %+v", page, r)
				}
				seen[string(id)] = true
			}
		}
		if len(seen) != 41 {
			t.Errorf("%d entries in all pages", len(seen))
		}
		if _, records, total := get("?action=user.setup_refused&limit=5", access.RoleAdmin); total != 20 || len(records) != 5 || !strings.HasPrefix(records[0].Action, "user.setup") {
			t.Errorf("%d of %d", len(records), total)
		}
		if _, records, total := get("?user_id=1", access.RoleAdmin); total != 1 || len(records) != 1 || records[0].UserID != 1 || records[0].Action != "thing.do" {
			t.Errorf("%+v of %d", records, total)
		}
		if status, _, _ := get("?since=5&until=5", access.RoleAdmin); status != 400 {
			t.Errorf("no time at all: %d", status)
		}
	})
}
