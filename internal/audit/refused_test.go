package audit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// However often somebody is refused, the log does not fill; others are not left
// out because of them, and a while later they are seen again.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		refuse := func(key int64) {
			ctx := access.With(t.Context(), &access.Caller{Kind: access.KindKey, UserID: 1, KeyID: key})
			h.RefuseAccess(ctx, web.Refusal{Route: "GET /x", Path: "/x", Code: 5022, What: "No."})
		}
		count := func(key int64) int64 {
			return h.number("SELECT COUNT(*) FROM audit_log WHERE user_id = 1 AND action = 'access.refused' AND object = 'GET /x' AND actor = $1", fmt.Sprint("key ", key))
		}
		for range 50 {
			refuse(1)
		}
		refuse(2)
		if count(1) != 20 || count(2) != 1 {
			t.Errorf("%d and %d", count(1), count(2))
		}
		more := h.number(`SELECT seq FROM audit_log WHERE user_id = 1 AND detail LIKE '%"more_not_recorded":true%'`)
		if more != 20 {
			t.Errorf("entry %d says that there may be more", more)
		}
		h.now = h.now.Add(15 * time.Minute)
		refuse(1)
		if count(1) != 21 {
			t.Errorf("%d", count(1))
		}
		h.now = h.now.Add(-time.Hour) // a clock that is set back
		for range 50 {
			refuse(1)
		}
		if count(1) != 41 {
			t.Errorf("%d", count(1))
		}
		h.whole()
		audit.New(time.Now).Refuse(t.Context(), audit.Entry{}) // a log for tests leaves them out
	})
}

// Strangers are bounded too, also where the refusal is part of a transaction
// that has to be committed.
func TestRefusalsOfStrangersAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *harness) {
		m := web.New(web.Options{Log: discard()})
		web.Raw(m, "POST /refuse", access.Public(), 0, func(_ http.ResponseWriter, r *http.Request) error {
			return h.db.InTx(r.Context(), func(tx *sqldb.Tx) error {
				for range 2100 {
					for user := range int64(2) {
						if err := h.Record(r.Context(), tx, audit.Entry{UserID: user, Action: "session.sign_in_refused"}); err != nil {
							return err
						}
					}
				}
				return h.Record(r.Context(), tx, audit.Entry{UserID: 1, Action: "session.sign_in"})
			})
		})
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/refuse", nil))
		for user, want := range map[int64]int64{0: 2000, 1: 500} {
			n := h.number("SELECT COUNT(*) FROM audit_log WHERE user_id = $1 AND action = 'session.sign_in_refused'", user)
			more := h.number(`SELECT COUNT(*) FROM audit_log WHERE user_id = $1 AND detail = '{"more_not_recorded":true}'`, user)
			if n != want || more != 1 {
				t.Errorf("user %d: %d refusals, %d that say more", user, n, more)
			}
		}
		if n := h.number("SELECT COUNT(*) FROM audit_log WHERE user_id = 1 AND action = 'session.sign_in'"); n != 1 {
			t.Errorf("what is no refusal: %d", n)
		}
		h.whole()
	})
}
