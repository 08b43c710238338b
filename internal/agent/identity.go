package agent

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"certharbor.dev/certharbor/internal/agent/client"
	"certharbor.dev/certharbor/internal/agent/material"
	"certharbor.dev/certharbor/internal/agent/statedir"
)

const (
	identityName = "identity.json"
	sessionName  = "session.json"
)

// identity is what makes this device this device.
type identity struct {
	DevicePublicID string `json:"device_public_id"`
	SecretKey      []byte `json:"secret_key"` // X25519, base64 in the file

	key material.DeviceKey
}

// login is a registration at a server.
type login struct {
	Server   string `json:"server"`
	CAFile   string `json:"ca_file,omitempty"`
	DeviceID int64  `json:"device_id"`
	UserID   int64  `json:"user_id,omitempty"`
	Name     string `json:"name,omitempty"`
	client.Session
}

// loadIdentity reads the identity, or makes and stores one.
func loadIdentity(dir *statedir.Dir) (*identity, error) {
	id := &identity{}
	found, err := dir.Read(identityName, id)
	if err != nil {
		return nil, fmt.Errorf("%w: restore it from a backup, or remove it and register this device anew", err)
	}
	if found {
		id.key, err = material.ParseDeviceKey(id.SecretKey)
		return id, err
	}
	if id.key, err = material.NewDeviceKey(); err != nil {
		return nil, err
	}
	id.SecretKey = id.key.Secret()
	id.DevicePublicID = newPublicID()
	return id, dir.Write(identityName, id)
}

// newPublicID gives 32 hex digits of a hash of random bytes, grouped
// 8-4-4-4-12 (wire.md 2).
func newPublicID() string {
	sum := sha256.Sum256([]byte("certharbor device " + rand.Text() + rand.Text()))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
