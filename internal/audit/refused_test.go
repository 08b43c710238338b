package audit_test

import (
	"fmt"
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
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
