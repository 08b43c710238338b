package devices

import (
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
)

// DeviceFacts are the members that every door of registration takes (wire.md
// section 4). Other members are ignored: agents may be newer than the server.
type DeviceFacts struct {
	DevicePublicID string `json:"device_public_id" maxLength:"200" doc:"36 characters, hexadecimal groups of 8-4-4-4-12."`
	DevPK          string `json:"dev_pk" maxLength:"200" doc:"X25519 public key: base64 of exactly 32 bytes."`
	Platform       string `json:"platform,omitempty" maxLength:"200"`
	Model          string `json:"model,omitempty" maxLength:"200"`
	AppVersion     string `json:"app_version,omitempty" maxLength:"200"`
	Name           string `json:"name,omitempty" maxLength:"200"`
	IP             string `json:"ip,omitempty" maxLength:"200" doc:"As the device sees it; may be unknown."`
	UserAgent      string `json:"user_agent,omitempty" maxLength:"1000"`
	PushToken      string `json:"push_token,omitempty" maxLength:"4096"`
}

// door is what entitles a registration.
type door int

const (
	doorCode    door = iota + 1 // a registration code that the user approved
	doorRefresh                 // a session, and the last refresh token of the device
	doorKey                     // an API key with ForDeviceAuthenticate
	doorToken                   // the last refresh token of the device alone, which keeps its key
)

func (d door) String() string {
	return [...]string{"", "registration_code", "session", "api_key", "refresh_token"}[d]
}

// Registration is a request to become a device of the user.
type Registration struct {
	DeviceFacts
	UserID       int64
	Code         string
	RefreshToken string
	ByKey        bool // an API key entitles it, nothing else is needed
	KeyID        int64
	MayRekey     bool // another key of a known device is good at once: by a person with a fresh proof, or a key with the action
}

// checked is a registration whose fields hold.
type checked struct {
	Registration
	door      door
	publicID  string
	publicKey [32]byte
	codeHash  []byte
	lookup    string // of the refresh token
}

// check validates the fields and chooses the door.
func (r Registration) check() (checked, error) {
	c := checked{Registration: r, door: doorKey}
	var err error
	if c.publicID, err = ParsePublicID(r.DevicePublicID); err != nil {
		return c, err
	}
	if c.publicKey, err = seal.ParseDeviceKey(r.DevPK); err != nil {
		return c, errDevPK
	}
	switch {
	case r.ByKey:
	case r.Code != "":
		c.door, c.codeHash = doorCode, seal.HashToken(r.Code)
	case r.RefreshToken != "" && r.MayRekey:
		c.door = doorRefresh
	case r.RefreshToken != "":
		c.door = doorToken
	default:
		return c, fault.Invalid("registration_code", "is needed; get one with POST /auth/device")
	}
	return c, nil
}

var errDevPK = fault.Invalid("dev_pk", "must be an X25519 public key: the base64 of exactly 32 bytes")

// nameFor is the name of a device that told none.
func (c checked) nameFor() string {
	if c.Model != "" {
		return c.Model
	}
	return "device " + c.publicID[:8]
}
