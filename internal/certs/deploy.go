package certs

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// DeployMaterials are what a device receives (wire.md 7.4): the AEAD form,
// whose members are base64, or the plaintext form.
type DeployMaterials struct {
	EncScheme        string `json:"enc_scheme" enum:"aes256gcm,plaintext"`
	WrapAlg          string `json:"wrap_alg,omitempty" doc:"x25519"`
	DeviceKeyFP      string `json:"device_keyfp_b64,omitempty" doc:"BLAKE2b-256 of the device's public key."`
	EncDataKey       string `json:"enc_data_key_b64,omitempty" doc:"Sealed box of the data key, 80 bytes."`
	EncPrivateKey    string `json:"enc_privkey_b64,omitempty" doc:"AES-256-GCM ciphertext without the tag."`
	PrivateKeyNonce  string `json:"privkey_nonce_b64,omitempty"`
	PrivateKeyTag    string `json:"privkey_tag_b64,omitempty"`
	PrivateKeyDERB64 string `json:"private_key_der_b64,omitempty" doc:"Plaintext form: PKCS#8."`
	CertificatePEM   string `json:"certificate_pem,omitempty" doc:"Plaintext form: the leaf, then its issuers."`
}

// filename is the name for Content-Disposition.
func (d *DeployMaterials) filename(certID int64) string {
	kind := "bundle"
	if d.EncScheme == "plaintext" {
		kind = "plaintext"
	}
	return fmt.Sprintf("cert_%d_%s.json", certID, kind)
}

// DeviceCertificate is the union of a record and what can be delivered of its
// key (wire.md 7.3).
type DeviceCertificate struct {
	*Certificate
	*DeployMaterials
}

// assigned loads a certificate that is assigned to the device, or the fault
// that there is none.
func (s *Service) assigned(ctx context.Context, userID, deviceID, certID int64) (Certificate, deployableRow, error) {
	row, err := New(s.DB.Reader()).deployable(ctx, deployableParams{DeviceID: deviceID, CertID: certID, UserID: userID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Certificate{}, row, errNotFound()
	}
	if err != nil {
		return Certificate{}, row, fmt.Errorf("load assigned certificate: %w", err)
	}
	c, err := fromRow(&row.CertificateRow, s.Now())
	c.Heavy = heavy(row.MaterialRow.ChainPem, row.MaterialRow.Csr)
	return c, row, err
}

// deliver gives the materials in the form that custody allows, or the fault. A
// device whose key waits for its owner gets neither form.
func (s *Service) deliver(ctx context.Context, c *Certificate, row *deployableRow, deviceID int64) (*DeployMaterials, error) {
	m := &row.MaterialRow
	form, err := custody(c, m, row.SealedBox != nil).Decide()
	if err != nil {
		return nil, err
	}
	if caller := access.From(ctx); caller != nil && caller.KeyWaits {
		return nil, fault.WrapPending()
	}
	if form == DeliverSealed {
		return &DeployMaterials{
			EncScheme: "aes256gcm", WrapAlg: "x25519", DeviceKeyFP: base64Text(row.KeyFp), EncDataKey: base64Text(row.SealedBox),
			EncPrivateKey: base64Text(m.KeyCiphertext), PrivateKeyNonce: base64Text(m.KeyNonce), PrivateKeyTag: base64Text(m.KeyTag),
		}, nil
	}
	if err := s.StepUp.RequireStepUp(ctx, s.DB.Reader()); err != nil {
		return nil, err
	}
	key, err := s.openKey(m)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: c.UserID, Action: "certificate.deliver_plaintext", Object: object(c.ID), Detail: map[string]any{"device_id": deviceID},
		})
	})
	if err != nil {
		return nil, err
	}
	return &DeployMaterials{EncScheme: "plaintext", PrivateKeyDERB64: base64Text(key), CertificatePEM: m.ChainPem}, nil
}

// deployMaterials is deliver for an assigned certificate of the caller.
func (s *Service) deployMaterials(ctx context.Context, caller *access.Caller, deviceID, certID int64) (*DeployMaterials, error) {
	c, row, err := s.assigned(ctx, caller.UserID, deviceID, certID)
	if err != nil {
		return nil, err
	}
	return s.deliver(ctx, &c, &row, deviceID)
}

// deviceCertificate is the record with the materials, or alone where custody
// or a pending wrap keeps them back.
func (s *Service) deviceCertificate(ctx context.Context, caller *access.Caller, certID int64) (*DeviceCertificate, error) {
	c, row, err := s.assigned(ctx, caller.UserID, caller.DeviceID, certID)
	if err != nil {
		return nil, err
	}
	m, err := s.deliver(ctx, &c, &row, caller.DeviceID)
	if err != nil && !fault.Is(err, fault.CodeWrapPending) && !fault.Is(err, fault.CodeExportForbidden) {
		return nil, err
	}
	return &DeviceCertificate{Certificate: &c, DeployMaterials: m}, nil
}
