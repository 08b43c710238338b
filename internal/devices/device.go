package devices

import (
	"regexp"
	"strings"

	"certharbor.dev/certharbor/internal/fault"
)

// StatusActive is the status of a device that may use its credentials.
const StatusActive = "ACTIVE"

// Device is one device of a user. Times are Unix ms.
type Device struct {
	ID           int64
	UserID       int64
	PublicID     string   // device_public_id in lower case, unique per user
	PublicKey    [32]byte // dev_pk, X25519: what private keys are sealed to
	Status       string
	Name         string
	Platform     string
	Model        string
	AppVersion   string
	Agent        string // as the agent notified
	AgentVersion string // as the agent notified
	IP           string
	UserAgent    string
	CreatedAt    int64
	UpdatedAt    int64
	LastSeenAt   int64       // to about ten minutes
	Waiting      *WaitingKey // nil: none
}

// DeviceRecord is a device as the API shows it (wire.md section 5).
type DeviceRecord struct {
	ID             int64  `json:"id"`
	UserID         int64  `json:"user_id"`
	DevicePublicID string `json:"device_public_id" doc:"In lower case."`
	Name           string `json:"name"`
	Status         string `json:"status" enum:"ACTIVE"`
	Platform       string `json:"platform"`
	Model          string `json:"model"`
	AppVersion     string `json:"app_version"`
	Agent          string `json:"agent" doc:"What the agent calls itself."`
	AgentVersion   string `json:"agent_version"`
	IP             string `json:"ip"`
	UserAgent      string `json:"user_agent"`
	DeviceKeyFP    string `json:"device_keyfp_b64" doc:"BLAKE2b-256 of dev_pk, base64."`
	KeyStatus      string `json:"key_status" enum:"ACTIVE,PENDING" doc:"PENDING: another key waits for its owner."`
	CreatedAt      int64  `json:"created_at" doc:"Unix milliseconds."`
	UpdatedAt      int64  `json:"updated_at" doc:"Unix milliseconds."`
	LastSeenAt     int64  `json:"last_seen_at" doc:"Unix milliseconds, to about ten minutes."`

	PendingKey *WaitingKey `json:"pending_key,omitempty" doc:"The key that waits."`
}

// The states of a device's key.
const (
	keyActive  = "ACTIVE"
	keyPending = "PENDING"
)

func (d Device) record() DeviceRecord {
	status := keyActive
	if d.Waiting != nil {
		status = keyPending
	}
	return DeviceRecord{
		ID: d.ID, UserID: d.UserID, DevicePublicID: d.PublicID, Name: d.Name, Status: d.Status,
		Platform: d.Platform, Model: d.Model, AppVersion: d.AppVersion, Agent: d.Agent, AgentVersion: d.AgentVersion,
		IP: d.IP, UserAgent: d.UserAgent, DeviceKeyFP: keyFingerprint(d.PublicKey[:]), KeyStatus: status, PendingKey: d.Waiting,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, LastSeenAt: d.LastSeenAt,
	}
}

var publicIDPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// ParsePublicID takes a device_public_id in any case and returns it in lower
// case. It is a hash, not an RFC 4122 UUID: version bits are not checked
// (wire.md section 2). Anything else is 5000.
func ParsePublicID(text string) (string, error) {
	if !publicIDPattern.MatchString(text) {
		return "", fault.Invalid("device_public_id", "must be 36 characters, hexadecimal groups of 8-4-4-4-12")
	}
	return strings.ToLower(text), nil
}
