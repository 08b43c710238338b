package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// KeySize is the length in bytes of master keys and data keys (AES-256).
const KeySize = 32

// keyIDSize is the length in bytes of a master key's id.
const keyIDSize = 8

type keyID [keyIDSize]byte

// Keyring holds the master keys: the first one seals, all of them open. It is
// safe for concurrent use and never gives a key away.
type Keyring struct {
	first masterKey
	byID  map[keyID]cipher.AEAD
}

type masterKey struct {
	id   keyID
	aead cipher.AEAD
}

// New makes a keyring of master keys of [KeySize] bytes, the sealing one first.
// It does not keep the slices: the caller may clear them afterwards. No key, a
// key of another length, an all-zero key and a repeated key are errors.
func New(keys ...[]byte) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("no master key")
	}
	ring := &Keyring{byID: make(map[keyID]cipher.AEAD, len(keys))}
	for i, key := range keys {
		master, err := newMasterKey(key)
		if err != nil {
			return nil, fmt.Errorf("master key %d: %w", i+1, err)
		}
		if _, twice := ring.byID[master.id]; twice {
			return nil, fmt.Errorf("master key %d: same as an earlier one", i+1)
		}
		ring.byID[master.id] = master.aead
		if i == 0 {
			ring.first = master
		}
	}
	return ring, nil
}

func newMasterKey(key []byte) (masterKey, error) {
	if len(key) != KeySize {
		return masterKey{}, fmt.Errorf("has %d bytes, needs %d", len(key), KeySize)
	}
	if isZero(key) {
		return masterKey{}, errors.New("is all zero")
	}
	aead, err := newAEAD(key)
	if err != nil {
		return masterKey{}, err
	}
	return masterKey{id: idOf(key), aead: aead}, nil
}

// ID names the master key that seals, as 16 hexadecimal digits. It is derived
// from the key without revealing it, so that a database can remember which key
// its secrets need.
func (k *Keyring) ID() string { return hex.EncodeToString(k.first.id[:]) }

// idOf derives the id, so that a key and its id cannot drift apart in a file.
func idOf(key []byte) keyID {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("certharbor master key id"))
	return keyID(mac.Sum(nil)[:keyIDSize])
}

// newAEAD is AES-256-GCM that puts a fresh random nonce before its ciphertext.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("aes: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("gcm: %w", err)
	}
	return aead, nil
}

func isZero(b []byte) bool {
	var all byte
	for _, c := range b {
		all |= c
	}
	return all == 0
}
