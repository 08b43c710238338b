package app

import (
	"context"
	"fmt"
	"net/url"

	"certharbor.dev/certharbor/internal/administration"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/devices"
	"certharbor.dev/certharbor/internal/installs"
	"certharbor.dev/certharbor/internal/issuance"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/quotas"
	"certharbor.dev/certharbor/internal/ratelimit"
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

// administrate makes the area that works on all others.
func (a *App) administrate() {
	s := &a.areas
	s.administration = administration.NewService(administration.Deps{
		DB: a.db, Audit: s.audit, Identity: s.identity, Log: a.log, Now: a.now, Parts: a.parts(),
		Renewals: s.certs, Deactivate: s.accounts.DeactivateAll, BaseURL: a.config.PublicURL(),
	})
}

func (a *App) makeWebhooks(transport outbound.Options) {
	s := &a.areas
	s.webhooks = webhooks.NewService(webhooks.Deps{
		DB: a.db, Audit: s.audit, Log: a.log, Now: a.now, Keys: a.keys, Outbound: transport,
		Tell: a.tellOfWebhook, StepUp: s.identity, Quota: s.quotas.One(quotas.Webhooks), Limiter: s.limiter,
	})
}

func (a *App) makeIssuance() {
	s := &a.areas
	s.issuance = issuance.NewService(issuance.Deps{
		DB: a.db, Audit: s.audit, Keys: a.keys, Log: a.log, Now: a.now, Certs: s.certs, Accounts: s.accounts, Webhooks: s.webhooks,
		Names: s.names, Attempt: s.quotas.Attempt,
	})
}

func (a *App) makeInstalls() {
	s := &a.areas
	s.installs = installs.NewService(installs.Deps{
		DB: a.db, Audit: s.audit, Devices: deviceIDs{s.devices}, Objects: installable{s.certs}, Feed: s.feed, StepUp: s.identity, Now: a.now, Stored: s.quotas.Stored,
	})
}

func newQuotas(c Config, db *sqldb.DB, trail *audit.Log, limiter *ratelimit.Limiter) (*quotas.Service, error) {
	allowed, err := quotas.ParseLimits(c.Quota)
	if err != nil {
		return nil, fmt.Errorf("quota: %w", err)
	}
	return quotas.NewService(quotas.Deps{DB: db, Audit: trail, Limiter: limiter, Limits: allowed}), nil
}

// countQuotas says which area counts what.
func (a *App) countQuotas() {
	s := &a.areas
	s.quotas.Count(quotas.Certificates, s.certs.Count)
	s.quotas.Count(quotas.Devices, s.devices.Count)
	s.quotas.Count(quotas.Accounts, s.accounts.Count)
	s.quotas.Count(quotas.Webhooks, s.webhooks.Count)
	s.quotas.Count(quotas.APIKeys, s.apikeys.Count)
	s.quotas.Count(quotas.Storage, s.certs.Bytes)
	s.quotas.Count(quotas.Storage, s.installs.Bytes)
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
