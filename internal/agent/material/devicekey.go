package material

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/nacl/box"
)

// DeviceKey is the device's X25519 key pair, to which the server seals data
// keys (wire.md 7.4).
type DeviceKey struct {
	secret, public [32]byte
}

// NewDeviceKey makes a key pair from the system's random source.
func NewDeviceKey() (DeviceKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return DeviceKey{}, fmt.Errorf("make device key: %w", err)
	}
	return ParseDeviceKey(key.Bytes())
}

// ParseDeviceKey takes the 32 bytes that Secret gave.
func ParseDeviceKey(secret []byte) (DeviceKey, error) {
	key, err := ecdh.X25519().NewPrivateKey(secret)
	if err != nil {
		return DeviceKey{}, fmt.Errorf("device key: %w", err)
	}
	var k DeviceKey
	copy(k.secret[:], key.Bytes())
	copy(k.public[:], key.PublicKey().Bytes())
	return k, nil
}

// Secret gives the 32 secret bytes, for storing only.
func (k DeviceKey) Secret() []byte { return k.secret[:] }

// PublicB64 gives the public key as the `dev_pk` of a registration.
func (k DeviceKey) PublicB64() string {
	return base64.StdEncoding.EncodeToString(k.public[:])
}

// FingerprintB64 gives `device_keyfp_b64`: BLAKE2b-256 of the public key.
func (k DeviceKey) FingerprintB64() string {
	sum := blake2b.Sum256(k.public[:])
	return base64.StdEncoding.EncodeToString(sum[:])
}

// openBox opens a libsodium sealed box made for this key.
func (k DeviceKey) openBox(sealed []byte) ([]byte, bool) {
	return box.OpenAnonymous(nil, sealed, &k.public, &k.secret)
}
