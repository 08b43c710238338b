package devices

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	failuresPerHour = 60   // of one device that are recorded; more say nothing new
	maxFailureText  = 1000 // bytes of what a device says about one
)

// installed takes one install_result: status "ok", or else a failure, which is a
// log line and an entry of the audit log. All of it is the device's own word.
func (s *Service) installed(ctx context.Context, userID, deviceID int64, event map[string]any) error {
	status, item, said := reported(event, "status"), reported(event, "item_id"), reported(event, "error")
	certID, _ := event["cert_id"].(float64)
	if status == "ok" || status == "" && said == "" {
		return nil
	}
	hit := ratelimit.Hit{Rule: ratelimit.FailuresOfDevice, Key: strconv.FormatInt(deviceID, 10), Max: failuresPerHour, Window: time.Hour}
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.Limiter.CountIn(ctx, tx, hit); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "device.install_failed", Object: object(deviceID),
			Detail: map[string]any{"item": item, "status": status, "error": said, "cert_id": int64(certID)},
		})
	})
	if fault.Is(err, fault.CodeRateLimited) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record a failed install: %w", err)
	}
	s.Log.InfoContext(ctx, "a device reports a failed install", "device_id", deviceID, "item", item, "status", status, "error", said)
	return nil
}

// reported is a text of a device, of which any column holds what is kept.
func reported(event map[string]any, member string) string {
	text, _ := event[member].(string)
	text = strings.ToValidUTF8(text[:min(len(text), maxFailureText)], "")
	return strings.ReplaceAll(text, "\x00", "")
}
