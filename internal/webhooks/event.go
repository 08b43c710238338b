package webhooks

import (
	"encoding/json"
	"fmt"
)

// The values of X-BB-Event.
const (
	EventIssued = "certificate.issued" // the only event_key
	EventTest   = "webhook.test"       // made by the test endpoint
)

// Event is an issuance that finished with SUCCESS.
type Event struct {
	CertID         int64
	IssueHistoryID int64
	UserID         int64
	DomainName     string
	Names          []string // every name of the certificate, for domain scopes
}

// body is the delivery body of api.md "Webhook delivery body".
type body struct {
	Event          string `json:"event"`
	CertID         int64  `json:"cert_id"`
	IssueHistoryID int64  `json:"issue_history_id"`
	UserID         int64  `json:"user_id"`
	TimestampMS    int64  `json:"ts_ms"`
	DomainName     string `json:"domain_name,omitempty"`
}

// encodeBody fixes the bytes that every attempt sends; enqueuedAt is Unix ms.
func encodeBody(event string, e Event, enqueuedAt int64) (string, error) {
	text, err := json.Marshal(body{
		Event: event, CertID: e.CertID, IssueHistoryID: e.IssueHistoryID,
		UserID: e.UserID, TimestampMS: enqueuedAt, DomainName: e.DomainName,
	})
	if err != nil {
		return "", fmt.Errorf("encode webhook body: %w", err)
	}
	return string(text), nil
}
