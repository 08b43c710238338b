package issuance

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
)

// Status is the state of an attempt (api.md "States and transitions").
type Status = string

// The states.
const (
	StatusPending    Status = "PENDING"
	StatusProcessing Status = "PROCESSING"
	StatusSuccess    Status = "SUCCESS"
	StatusFailed     Status = "FAILED"
	StatusCancelled  Status = "CANCELLED"
)

// The values of trigger (decisions.md section 4).
const (
	TriggerManual  = "manual"
	TriggerRenewal = "renewal"
	TriggerKey     = "api_key"
)

// challengeHTTP01 is the one way to prove a name that is offered so far.
const challengeHTTP01 = "http-01"

// The steps: what is to be done next.
const (
	stepPrepare   = "prepare"   // make key and CSR
	stepAccount   = "account"   // register the account at its CA
	stepOrder     = "order"     // place the order
	stepAuthorize = "authorize" // learn the challenges and publish their answers
	stepValidate  = "validate"  // let the CA look, wait until the order is ready
	stepFinalize  = "finalize"  // send the CSR
	stepDownload  = "download"  // wait for the certificate, fetch, check and store it
	stepEnd       = "end"       // nothing
)

// finalized tells whether a certificate may have come of the order already.
func finalized(step string) bool {
	return step == stepFinalize || step == stepDownload
}

// Issuance is a row of the history. Times are Unix ms, 0: not yet.
type Issuance struct {
	ID                 int64      `json:"id"`
	CertRecordID       int64      `json:"cert_record_id"`
	IssueAttemptNumber int64      `json:"issue_attempt_number"`
	Status             Status     `json:"status"`
	Trigger            string     `json:"trigger"`
	AcctID             int64      `json:"acct_id"`
	OrderURL           string     `json:"order_url"`
	Challenge          string     `json:"challenge"`
	ErrorMessage       string     `json:"error_message"`
	StartedAt          int64      `json:"started_at"`
	CompletedAt        int64      `json:"completed_at"`
	Log                []LogEntry `json:"log,omitempty" doc:"The steps, oldest first; on the single item only."`
}

// LogEntry is one line of an attempt's log.
type LogEntry struct {
	At      int64  `json:"at"`
	Step    string `json:"step"`
	Message string `json:"message"`
}

func fromRow(r issuanceRow) Issuance {
	return Issuance{
		ID: r.ID, CertRecordID: r.CertID, IssueAttemptNumber: r.AttemptNumber, Status: r.Status, Trigger: r.Cause,
		AcctID: r.AcctID, OrderURL: r.OrderUrl, Challenge: r.Challenge, ErrorMessage: r.ErrorMessage,
		StartedAt: r.StartedAt, CompletedAt: r.CompletedAt,
	}
}

func open(status Status) bool { return status == StatusPending || status == StatusProcessing }

// nameSet is what the limit on orders counts by: the same for the same names
// in any order.
func nameSet(names []string) []byte {
	sorted := slices.Sorted(slices.Values(names))
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(sorted), "\n")))
	return sum[:]
}

func encodeNames(names []string) string {
	text, err := json.Marshal(names)
	if err != nil {
		panic("issuance: a list of strings has a JSON form: " + err.Error())
	}
	return string(text)
}

func decodeNames(text string) []string {
	var names []string
	if json.Unmarshal([]byte(text), &names) != nil {
		return nil // written by encodeNames
	}
	return names
}
