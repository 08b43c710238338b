package certs

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Issued is the outcome of an issuance.
type Issued struct {
	CertID     int64
	IssuanceID int64
	Chain      Chain
	KeyDER     []byte // PKCS#8; nil: see DeviceKey, or the key is unchanged, or the record's CSR brought it
	DeviceKey  []byte // the key as SealKey gave it
}

// Store puts a new leaf, its chain and its key in place of what was there:
// sealed as the policy says, ACTIVE and verified, with the time of its next
// renewal, signalled to every assigned device. A leaf whose key or names do not
// match is a fault on cert_pem and changes nothing. It runs in the transaction
// that ends the issuance.
func (s *Service) Store(ctx context.Context, tx *sqldb.Tx, in Issued) (Certificate, error) {
	c, err := s.lock(ctx, tx, 0, in.CertID)
	if err != nil {
		return Certificate{}, err
	}
	c.Verified = true
	if in.KeyDER != nil || in.DeviceKey != nil {
		c.Policy, c.nextPolicy = c.KeyPolicy(), ""
	}
	if in.DeviceKey != nil && c.Policy.WrapsForServer() { // asked for after the key was made: from the next key on
		c.Policy, c.nextPolicy = PolicyDeviceRequired, c.Policy
	}
	if err := s.put(ctx, tx, &c, in.Chain, newKey{in.KeyDER, in.DeviceKey}); err != nil {
		return Certificate{}, err
	}
	return c, s.Audit.Record(ctx, tx, audit.Entry{
		UserID: c.UserID, Action: "certificate.issue", Object: object(c.ID),
		Detail: map[string]any{"issuance": in.IssuanceID, "serial_number": c.SerialNumber},
	})
}

// newKey is a private key in one of two forms, or none.
type newKey struct {
	der        []byte // PKCS#8
	forDevices []byte // as SealKey gave it
}

// put is Store for a record that is locked or new. The chain is checked against
// the key and the names of the record first.
func (s *Service) put(ctx context.Context, tx *sqldb.Tx, c *Certificate, chain Chain, key newKey) error {
	m, err := materials(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	var sealed *deviceKey
	var public crypto.PublicKey
	if key.forDevices != nil {
		sealed, public, err = parseDeviceKey(key.forDevices)
	} else {
		public, err = certifiedKey(&m, key.der)
	}
	if err != nil {
		return err
	}
	if err := chain.CheckLeaf(public, c.Names().All()); err != nil {
		return fault.Invalid("cert_pem", "%v", err)
	}
	if chain.Leaf.NotAfter.UnixMilli() <= 0 {
		return fault.Invalid("cert_pem", "the certificate ended before 1970")
	}
	c.describe(chain.Describe())
	c.NextRenewalAt, c.RenewalBlocked = c.renewAt(s.Now()), ""
	if err := s.save(ctx, tx, c); err != nil {
		return err
	}
	full := string(chain.FullPEM())
	if err := New(tx).setChain(ctx, setChainParams{CertID: c.ID, ChainPem: full}); err != nil {
		return fmt.Errorf("store chain: %w", err)
	}
	c.Heavy = heavy(full, m.Csr)
	devices, err := assignees(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	switch {
	case sealed != nil:
		err = s.putDeviceKey(ctx, tx, c, sealed, devices)
	case key.der != nil:
		err = s.putKey(ctx, tx, c, key.der, devices)
	}
	if err != nil {
		return err
	}
	if m, err = materials(ctx, tx, c.ID); err != nil {
		return err
	}
	if err := s.planReissue(ctx, tx, c, &m, devices); err != nil {
		return err
	}
	return s.announce(ctx, tx, c, &m, devices)
}

// certifiedKey is the public key that a new leaf must certify.
func certifiedKey(m *materialRow, keyDER []byte) (crypto.PublicKey, error) {
	switch {
	case keyDER != nil && m.Csr != nil:
		return nil, fault.Invalid("private_key_pem", "must be absent: the certificate has a signing request")
	case keyDER != nil:
		key, err := ParseKey(keyDER)
		if err != nil {
			return nil, fault.Invalid("private_key_pem", "%v", err)
		}
		return key.Public(), nil
	case m.Csr != nil:
		csr, err := ParseCSR(m.Csr)
		return csr.PublicKey, err
	case m.ChainPem != "":
		chain, err := storedChain(m.ChainPem)
		if err != nil {
			return nil, err
		}
		return chain.Leaf.PublicKey, nil
	}
	return nil, fault.Invalid("private_key_pem", "is needed: the certificate has neither a key nor a signing request yet")
}

// CSRFor gives the signing request (DER) for an attempt and the private key
// (PKCS#8 DER) that belongs to it: a fresh one, or nil with the record's own
// request of origin csr. The caller keeps both, sealed, with the attempt.
func (s *Service) CSRFor(ctx context.Context, q sqldb.Querier, c Certificate) (csrDER, keyDER []byte, err error) {
	if c.Origin == OriginCSR {
		m, err := materials(ctx, q, c.ID)
		if err == nil && m.Csr == nil {
			err = errors.New("a record of origin csr has no signing request")
		}
		return m.Csr, nil, err
	}
	key, err := s.generate(ctx, c.UserID, c.KeyAlgorithm)
	if err != nil {
		return nil, nil, err
	}
	if keyDER, err = MarshalKey(key); err != nil {
		return nil, nil, err
	}
	csrDER, err = CreateCSR(key, c.Names(), c.Subject)
	return csrDER, keyDER, err
}

// NoteIssue sets last_issue to the issuance, unless a newer one stands there.
func (s *Service) NoteIssue(ctx context.Context, tx *sqldb.Tx, certID, issuanceID int64, status string, at int64) error {
	err := New(tx).setLastIssue(ctx, setLastIssueParams{ID: certID, IssueID: issuanceID, Status: status, At: at})
	if err != nil {
		return fmt.Errorf("note issuance: %w", err)
	}
	return nil
}
