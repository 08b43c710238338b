package webhooks

import (
	"net/url"
	"strconv"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/outbound"
	"certharbor.dev/certharbor/internal/seal"
)

// Webhook is a receiver as its owner sees it. The secret is never part of it.
type Webhook struct {
	ID             int64     `json:"id"`
	UserID         int64     `json:"user_id"`
	URL            string    `json:"url"`
	EventKey       string    `json:"event_key"`
	Scope          Scope     `json:"scope" doc:"As it is understood."`
	Enabled        bool      `json:"enabled"`
	DisabledReason string    `json:"disabled_reason" doc:"Why the service disabled it; empty otherwise."`
	LastDelivery   *Delivery `json:"last_delivery" doc:"The newest delivery, or null before the first."`
	CreatedAt      int64     `json:"created_at" doc:"Unix ms."`
	UpdatedAt      int64     `json:"updated_at" doc:"Unix ms."`
}

// Delivery is one event on its way to one webhook.
type Delivery struct {
	ID             int64  `json:"id" doc:"X-BB-Delivery-Id, the same in every attempt."`
	WebhookID      int64  `json:"webhook_id"`
	Event          string `json:"event"`
	CertID         int64  `json:"cert_id" doc:"0 for a test."`
	IssueHistoryID int64  `json:"issue_history_id" doc:"0 for a test."`
	Status         string `json:"status" enum:"PENDING,SUCCESS,PERMANENT_FAILURE,EXHAUSTED"`
	Attempts       int64  `json:"attempts"`
	LastStatusCode int64  `json:"last_status_code" doc:"HTTP status of the last answer; 0 when there was none."`
	LastError      string `json:"last_error" doc:"What was wrong with the last attempt; empty after a success."`
	LastAttemptAt  int64  `json:"last_attempt_at" doc:"Unix ms; 0 before the first."`
	NextAttemptAt  int64  `json:"next_attempt_at" doc:"Unix ms; 0 when finished, or held back by an earlier event of the certificate."`
	CreatedAt      int64  `json:"created_at" doc:"Unix ms."`
	FinishedAt     int64  `json:"finished_at" doc:"Unix ms; 0 while pending."`
}

// Input is what a user says about a webhook, on create and on update.
type Input struct {
	URL      string `json:"url" minLength:"1" maxLength:"2048" doc:"http or https; a public address unless the operator allows its range."`
	EventKey string `json:"event_key,omitempty" enum:"certificate.issued" default:"certificate.issued"`
	Secret   string `json:"secret" minLength:"16" maxLength:"256" doc:"Key of the signature. Never returned."`
	Scope    any    `json:"scope,omitempty" doc:"{\"type\":\"all\"}, {\"type\":\"cert_id\",\"cert_id\":1} or {\"type\":\"domain\",\"domain\":\"a.example\"}; else all."`
	Enabled  *bool  `json:"enabled,omitempty" doc:"Default true."`
}

// checked is an Input that was found good.
type checked struct {
	url      string
	secret   []byte
	scope    Scope
	enabled  bool
	warnings []string
}

// check judges the input. guard refuses targets that are plain to see; what a
// name resolves to is judged at each attempt.
func (in Input) check(guard *outbound.Guard) (checked, error) {
	if in.EventKey != "" && in.EventKey != EventIssued {
		return checked{}, fault.Invalid("event_key", "must be %s", EventIssued)
	}
	if n := len([]rune(in.Secret)); n < 16 || n > 256 {
		return checked{}, fault.Invalid("secret", "must have 16 to 256 characters")
	}
	if err := checkURL(in.URL, guard); err != nil {
		return checked{}, err
	}
	c := checked{url: in.URL, secret: []byte(in.Secret), enabled: in.Enabled == nil || *in.Enabled}
	var warning string
	if c.scope, warning = ParseScope(in.Scope); warning != "" {
		c.warnings = []string{warning}
	}
	return c, nil
}

func checkURL(text string, guard *outbound.Guard) error {
	if len(text) > 2048 {
		return fault.Invalid("url", "must have at most 2048 characters")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" {
		return fault.Invalid("url", "must be http://host… or https://host…")
	}
	if u.User != nil {
		return fault.Invalid("url", "must not hold a user name or password; deliveries are authenticated by their signature")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fault.Invalid("url", "has a port that is not 1 to 65535")
		}
	}
	if err := guard.CheckHost(u.Hostname()); err != nil {
		return fault.Invalid("url", "is not a target this server may call (loopback, private or otherwise special)").Because(err)
	}
	return nil
}

// secretPlace binds the sealed secret to its row.
func secretPlace(webhookID int64) seal.Place {
	return seal.Place{Table: "service_webhooks", Row: webhookID, Column: "secret"}
}
