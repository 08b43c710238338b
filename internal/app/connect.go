package app

import (
	"context"
	"fmt"
	"net/url"

	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/webhooks"
)

// tellOfWebhook tells the owner of a webhook that the service disabled it. The
// rest of its address may be a secret: the letter names the host alone.
func (a *App) tellOfWebhook(ctx context.Context, tx *sqldb.Tx, d webhooks.Disabled) error {
	host := ""
	if target, err := url.Parse(d.URL); err == nil {
		host = " to " + target.Host
	}
	return a.areas.identity.Tell(ctx, tx, d.UserID, "webhook-disabled", mail.Letter{
		Subject: "A webhook was disabled",
		Paragraphs: []string{
			fmt.Sprintf("Webhook %d%s of your account at %s is disabled: %s", d.WebhookID, host, a.config.PublicURL(), d.Reason),
			"Nothing is sent until you enable it again; what happens meanwhile is not kept for it.",
		},
	})
}

// installable gives installs the one thing it needs of what items name.
type installable struct{ certs *certs.Service }

// Certificates implements installs.Objects.
func (i installable) Certificates(ctx context.Context, q sqldb.Querier, userID, deviceID int64, ids []int64) (map[int64]string, error) {
	return i.certs.Fetchable(ctx, q, userID, deviceID, ids)
}

// CAs implements installs.Objects: this server has no CAs of its users.
func (installable) CAs(context.Context, sqldb.Querier, int64, []int64) (map[int64]bool, error) {
	return map[int64]bool{}, nil
}

// deviceIDs gives installs the one thing it needs of a device.
type deviceIDs struct{ devices *devices.Service }

// DeviceID implements installs.Devices.
func (d deviceIDs) DeviceID(ctx context.Context, q sqldb.Querier, userID, deviceID int64) (int64, error) {
	device, err := d.devices.Get(ctx, q, userID, deviceID)
	return device.ID, err
}

// DeviceIDByPublicID implements installs.Devices.
func (d deviceIDs) DeviceIDByPublicID(ctx context.Context, q sqldb.Querier, userID int64, publicID string) (int64, error) {
	device, err := d.devices.GetByPublicID(ctx, q, userID, publicID)
	return device.ID, err
}
