package certs

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// deviceKey is a private key that only devices can open, between its making and
// the certificate. Nothing that the server has opens it.
type deviceKey struct {
	Public     []byte       `json:"public"` // PKIX DER
	Ciphertext []byte       `json:"ciphertext"`
	Nonce      []byte       `json:"nonce"`
	Tag        []byte       `json:"tag"`
	Wraps      []deviceWrap `json:"wraps"`
}

type deviceWrap struct {
	DeviceID  int64  `json:"device_id"`
	SealedBox []byte `json:"sealed_box"`
	KeyFP     []byte `json:"key_fp"` // of the device key that the box is for
}

// SealKey seals a fresh private key (PKCS#8 DER) to the devices that have the
// certificate now, where its policy gives the key to devices alone. It is nil
// where the server keeps the key: then the caller seals it. The signing request
// is all that an authority needs, so the server never stores such a key in a way
// that it could open: no log of the database and no backup holds it either.
func (s *Service) SealKey(ctx context.Context, tx *sqldb.Tx, certID int64, keyDER []byte) ([]byte, error) {
	c, err := s.lock(ctx, tx, 0, certID)
	if err != nil || c.KeyPolicy().WrapsForServer() {
		return nil, err
	}
	private, err := ParseKey(keyDER)
	if err != nil {
		return nil, err
	}
	devices, err := assignees(ctx, tx, certID)
	if err != nil {
		return nil, err
	}
	dataKey := seal.NewDataKey()
	defer clear(dataKey)
	encrypted, err := seal.EncryptPrivateKey(dataKey, keyDER)
	if err != nil {
		return nil, fmt.Errorf("encrypt private key: %w", err)
	}
	key := deviceKey{Ciphertext: encrypted.Ciphertext, Nonce: encrypted.Nonce, Tag: encrypted.Tag}
	if key.Public, err = x509.MarshalPKIXPublicKey(private.Public()); err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	for _, d := range devices {
		box, err := seal.WrapForDevice(d.publicKey, dataKey)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", d.deviceID, err)
		}
		fingerprint := seal.Fingerprint(d.publicKey)
		key.Wraps = append(key.Wraps, deviceWrap{DeviceID: d.deviceID, SealedBox: box, KeyFP: fingerprint[:]})
	}
	return json.Marshal(key)
}

func parseDeviceKey(sealed []byte) (*deviceKey, crypto.PublicKey, error) {
	var key deviceKey
	if err := json.Unmarshal(sealed, &key); err != nil {
		return nil, nil, errors.New("the key that is sealed to devices cannot be read")
	}
	public, err := x509.ParsePKIXPublicKey(key.Public)
	if err != nil {
		return nil, nil, errors.New("the public key of the key that is sealed to devices cannot be read")
	}
	return &key, public, nil
}

// putDeviceKey replaces the private key by one that is sealed to devices. A
// device that was assigned since, or has another key since, waits for a re-issue.
func (s *Service) putDeviceKey(ctx context.Context, tx *sqldb.Tx, c *Certificate, key *deviceKey, devices []assignee) error {
	version, err := New(tx).setKey(ctx, setKeyParams{CertID: c.ID, KeyCiphertext: key.Ciphertext, KeyNonce: key.Nonce, KeyTag: key.Tag})
	if err != nil {
		return fmt.Errorf("store private key: %w", err)
	}
	if err := New(tx).dropWraps(ctx, c.ID); err != nil {
		return fmt.Errorf("drop old device wraps: %w", err)
	}
	boxes := make(map[int64]deviceWrap, len(key.Wraps))
	for _, w := range key.Wraps {
		boxes[w.DeviceID] = w
	}
	for i := range devices {
		d := &devices[i]
		d.keyFP = nil
		fingerprint := seal.Fingerprint(d.publicKey)
		w, ok := boxes[d.deviceID]
		if !ok || string(w.KeyFP) != string(fingerprint[:]) {
			continue
		}
		if err := s.putWrap(ctx, tx, c.ID, version, w.SealedBox, d); err != nil {
			return err
		}
	}
	return nil
}
