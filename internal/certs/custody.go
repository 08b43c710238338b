package certs

import (
	"context"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// dataKeyPlace is where the data key of a certificate's private key is sealed.
func dataKeyPlace(certID int64) seal.Place {
	return seal.Place{Table: "certificate_materials", Row: certID, Column: "data_key"}
}

// assignee is a device that a certificate is assigned to.
type assignee struct {
	deviceID  int64
	publicKey [32]byte
	keyFP     []byte // of the stored wrap of the present private key; nil: none
}

// holdAssigned is sqldb.Tx.Keep for all of them.
const holdAssigned = `SELECT d.id FROM certificate_assignments a JOIN devices d ON d.id = a.device_id
WHERE a.cert_id = $1 ORDER BY a.device_id`

// assignees lists them in ascending order, the order in which they are
// signalled, and keeps them from being deleted until tx ends.
func assignees(ctx context.Context, tx *sqldb.Tx, certID int64) ([]assignee, error) {
	if tx.Dialect() == sqldb.Postgres {
		if _, err := tx.ExecContext(ctx, holdAssigned+" FOR KEY SHARE OF d", certID); err != nil {
			return nil, fmt.Errorf("keep assigned devices: %w", err)
		}
	}
	rows, err := New(tx).assignedDevices(ctx, certID)
	if err != nil {
		return nil, fmt.Errorf("list assigned devices: %w", err)
	}
	all := make([]assignee, len(rows))
	for i, row := range rows {
		if len(row.PublicKey) != 32 {
			return nil, fmt.Errorf("device %d has a public key of %d bytes", row.DeviceID, len(row.PublicKey))
		}
		all[i] = assignee{deviceID: row.DeviceID, publicKey: [32]byte(row.PublicKey), keyFP: row.KeyFp}
	}
	return all, nil
}

// putKey replaces the private key: encrypted under a fresh data key, which is
// wrapped for whom the policy names.
func (s *Service) putKey(ctx context.Context, tx *sqldb.Tx, c *Certificate, der []byte, devices []assignee) error {
	dataKey := seal.NewDataKey()
	defer clear(dataKey)
	encrypted, err := seal.EncryptPrivateKey(dataKey, der)
	if err != nil {
		return fmt.Errorf("encrypt private key: %w", err)
	}
	var forServer []byte
	if c.Policy.WrapsForServer() {
		if forServer, err = s.Keys.Seal(dataKeyPlace(c.ID), dataKey); err != nil {
			return fmt.Errorf("seal data key: %w", err)
		}
	}
	version, err := New(tx).setKey(ctx, setKeyParams{
		CertID: c.ID, KeyCiphertext: encrypted.Ciphertext, KeyNonce: encrypted.Nonce, KeyTag: encrypted.Tag, DataKey: forServer,
	})
	if err != nil {
		return fmt.Errorf("store private key: %w", err)
	}
	if err := New(tx).dropWraps(ctx, c.ID); err != nil {
		return fmt.Errorf("drop old device wraps: %w", err)
	}
	for i := range devices {
		devices[i].keyFP = nil
		if !c.Policy.WrapsForDevices() {
			continue
		}
		if err := s.wrap(ctx, tx, c.ID, version, dataKey, &devices[i]); err != nil {
			return err
		}
	}
	return nil
}

// wrap seals the data key to one device and stores it.
func (s *Service) wrap(ctx context.Context, tx *sqldb.Tx, certID, keyVersion int64, dataKey []byte, d *assignee) error {
	box, err := seal.WrapForDevice(d.publicKey, dataKey)
	if err != nil {
		return fmt.Errorf("device %d: %w", d.deviceID, err)
	}
	return s.putWrap(ctx, tx, certID, keyVersion, box, d)
}

// putWrap stores a data key that is sealed to the device's present key.
func (s *Service) putWrap(ctx context.Context, tx *sqldb.Tx, certID, keyVersion int64, box []byte, d *assignee) error {
	fingerprint := seal.Fingerprint(d.publicKey)
	err := New(tx).putWrap(ctx, putWrapParams{
		DeviceID: d.deviceID, CertID: certID, KeyVersion: keyVersion, SealedBox: box, KeyFp: fingerprint[:], Now: s.Now().UnixMilli(),
	})
	if err != nil {
		return fmt.Errorf("store device wrap: %w", err)
	}
	d.keyFP = fingerprint[:]
	return nil
}

var errNoServerWrap = errors.New("the data key is not sealed for the server")

// openDataKey gives the data key; clear it after use. It fails where the policy
// keeps none for the server.
func (s *Service) openDataKey(m *materialRow) ([]byte, error) {
	if m.DataKey == nil {
		return nil, errNoServerWrap
	}
	return s.Keys.Open(dataKeyPlace(m.CertID), m.DataKey)
}

// openKey gives the private key as PKCS#8 DER; clear it after use.
func (s *Service) openKey(m *materialRow) ([]byte, error) {
	dataKey, err := s.openDataKey(m)
	if err != nil {
		return nil, err
	}
	defer clear(dataKey)
	return seal.DecryptPrivateKey(dataKey, seal.EncryptedKey{Ciphertext: m.KeyCiphertext, Nonce: m.KeyNonce, Tag: m.KeyTag})
}

// wrapMissing wraps the present private key for those devices that have no
// wrap of it. It does nothing where there is no key, where the policy keeps no
// device wraps, or where the server cannot open the key.
func (s *Service) wrapMissing(ctx context.Context, tx *sqldb.Tx, policy Policy, m *materialRow, devices []assignee) error {
	if !policy.WrapsForDevices() || m.KeyCiphertext == nil || m.DataKey == nil {
		return nil
	}
	dataKey, err := s.openDataKey(m)
	if err != nil {
		return err
	}
	defer clear(dataKey)
	for i := range devices {
		if devices[i].keyFP != nil {
			continue
		}
		if err := s.wrap(ctx, tx, m.CertID, m.KeyVersion, dataKey, &devices[i]); err != nil {
			return err
		}
	}
	return nil
}
