package devices_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// A failure that a device reports is in the log and in the owner's audit log,
// once each and bounded; what went well is not.
func TestReportedFailures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		var log bytes.Buffer
		w.deps.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
		w.svc, w.mux = w.node()
		token := w.register(w.user, nil).want(t, 201, 0).text("session.access_token")
		report := func(events ...any) {
			t.Helper()
			w.call(token, "POST /apiv1/devices/self/notify", m{"schema": "certctrl.device.notify.v1", "events": events}).want(t, 204, 0)
		}
		failed := m{"type": "install_result", "item_id": "files", "status": "failed", "error": "permission denied " + strings.Repeat("x", 5000)}
		report(m{"type": "install_result", "item_id": "files", "status": "ok"}, failed, m{"type": "install_result"}, m{"type": "other", "error": "x"})
		if n := w.audited("device.install_failed"); n != 1 || strings.Count(log.String(), "a device reports a failed install") != 1 {
			t.Errorf("%d entries, log %s", n, log.String())
		}
		many := make([]any, 100)
		failed["error"] = "again"
		for i := range many {
			many[i] = failed
		}
		report(many...)
		if n := w.audited("device.install_failed"); n != 60 {
			t.Errorf("%d entries", n)
		}
	})
}
