package certs

import (
	"context"
	"database/sql"
	"encoding/pem"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

func errNotFound() error { return fault.NotFound("certificate") }

func fromRow(r *certificateRow, now time.Time) (Certificate, error) {
	window, err := decodeWindow(r.RenewalWindow)
	if err != nil {
		return Certificate{}, fmt.Errorf("certificate %d: %w", r.ID, err)
	}
	c := Certificate{
		ID: r.ID, UserID: r.UserID, AcctID: r.AcctID.Int64, PublicID: r.PublicID, Origin: Origin(r.Origin),
		DomainName: r.DomainName, SANs: decodeNames(r.Sans),
		Subject: Subject{
			Organization: r.Organization, OrganizationalUnit: r.OrganizationalUnit, Country: r.Country, State: r.State, Locality: r.Locality,
		},
		Status: StatusAt(now, r.NotAfter, r.RevokedAt), KeyAlgorithm: KeyAlgorithm(r.KeyAlgorithm),
		Policy: Policy(r.Policy), KeyDistPolicy: Policy(r.Policy), nextPolicy: Policy(r.NextPolicy),
		ServerDecryptExport: r.ServerDecryptExport, Challenge: r.Challenge,
		AutoRenew: r.AutoRenew, RenewBeforeDays: r.RenewBeforeDays, RenewalWindow: window, FallbackAcctIDs: []int64{},
		Verified: r.Verified, SelfSigned: r.SelfSigned, SerialNumber: r.SerialNumber, FingerprintSHA256: r.FingerprintSha256,
		Issuer: r.Issuer, NotBefore: r.NotBefore, NotAfter: r.NotAfter, RevokedAt: r.RevokedAt, RevokeReason: r.RevokeReason,
		NextRenewalAt: r.NextRenewalAt, RenewalBlocked: r.RenewalBlocked, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.LastIssueID != 0 {
		c.LastIssue = &LastIssue{ID: r.LastIssueID, Status: r.LastIssueStatus, At: r.LastIssueAt}
	}
	return c, nil
}

func heavy(chainPEM string, csr []byte) *Heavy {
	h := &Heavy{Cert: chainPEM}
	if csr != nil {
		h.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	}
	return h
}

// insert stores a new record with its materials and sets its id.
func insert(ctx context.Context, tx *sqldb.Tx, c *Certificate, csr []byte) error {
	sans, err := encodeNames(c.SANs)
	if err != nil {
		return fmt.Errorf("encode names: %w", err)
	}
	window, err := encodeWindow(c.RenewalWindow)
	if err != nil {
		return fmt.Errorf("encode renewal window: %w", err)
	}
	c.ID, err = New(tx).insertCertificate(ctx, insertCertificateParams{
		UserID: c.UserID, AcctID: nullable(c.AcctID), PublicID: c.PublicID, Origin: string(c.Origin), DomainName: c.DomainName, Sans: sans,
		Organization: c.Organization, OrganizationalUnit: c.OrganizationalUnit, Country: c.Country, State: c.State, Locality: c.Locality,
		KeyAlgorithm: string(c.KeyAlgorithm), Policy: string(c.Policy), ServerDecryptExport: c.ServerDecryptExport, Challenge: c.Challenge,
		AutoRenew: c.AutoRenew, RenewBeforeDays: c.RenewBeforeDays, RenewalWindow: window, Now: c.CreatedAt,
	})
	if sqldb.Is(err, sqldb.ErrForeignKey) { // the account went between look and insert
		return fault.NotFound("acme account")
	}
	if err != nil {
		return fmt.Errorf("insert certificate: %w", err)
	}
	if err := New(tx).insertMaterials(ctx, insertMaterialsParams{CertID: c.ID, Csr: csr}); err != nil {
		return fmt.Errorf("insert certificate materials: %w", err)
	}
	return nil
}

// lock loads the record without heavy members and keeps other writers of it
// away until tx ends. userID 0 means whosever it is.
func (s *Service) lock(ctx context.Context, tx *sqldb.Tx, userID, id int64) (Certificate, error) {
	row, err := New(tx).lockCertificate(ctx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && userID != 0 && row.UserID != userID {
		return Certificate{}, errNotFound()
	}
	if err != nil {
		return Certificate{}, fmt.Errorf("lock certificate: %w", err)
	}
	return fromRow(&row, s.Now())
}

// Hold keeps every other writer of the certificate away until tx ends. Whoever
// changes it together with rows that hang on it calls this first: PostgreSQL
// sees a deadlock when one transaction goes from the row to the certificate and
// another, deleting, from the certificate to the row. One that does not exist
// is no error.
func (*Service) Hold(ctx context.Context, tx *sqldb.Tx, certID int64) error {
	if tx.Dialect() == sqldb.SQLite { // has one writer at a time
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT id FROM certificates WHERE id = $1`+tx.Dialect().ForUpdate(), certID)
	if err != nil {
		return fmt.Errorf("hold certificate: %w", err)
	}
	return nil
}

// save writes every member that may change of a locked record.
func (s *Service) save(ctx context.Context, tx *sqldb.Tx, c *Certificate) error {
	now := s.Now()
	c.UpdatedAt, c.KeyDistPolicy, c.Status = now.UnixMilli(), c.Policy, StatusAt(now, c.NotAfter, c.RevokedAt)
	sans, err := encodeNames(c.SANs)
	if err != nil {
		return fmt.Errorf("encode names: %w", err)
	}
	window, err := encodeWindow(c.RenewalWindow)
	if err != nil {
		return fmt.Errorf("encode renewal window: %w", err)
	}
	err = New(tx).saveCertificate(ctx, saveCertificateParams{
		ID: c.ID, AcctID: nullable(c.AcctID), DomainName: c.DomainName, Sans: sans,
		Organization: c.Organization, OrganizationalUnit: c.OrganizationalUnit, Country: c.Country, State: c.State, Locality: c.Locality,
		KeyAlgorithm: string(c.KeyAlgorithm), Policy: string(c.Policy), NextPolicy: string(c.nextPolicy),
		ServerDecryptExport: c.ServerDecryptExport, Challenge: c.Challenge,
		AutoRenew: c.AutoRenew, RenewBeforeDays: c.RenewBeforeDays, RenewalWindow: window, Verified: c.Verified,
		SerialNumber: c.SerialNumber, FingerprintSha256: c.FingerprintSHA256, Issuer: c.Issuer, SelfSigned: c.SelfSigned,
		NotBefore: c.NotBefore, NotAfter: c.NotAfter, RevokedAt: c.RevokedAt, RevokeReason: c.RevokeReason,
		NextRenewalAt: c.NextRenewalAt, RenewalBlocked: c.RenewalBlocked, UpdatedAt: c.UpdatedAt,
	})
	if sqldb.Is(err, sqldb.ErrForeignKey) {
		return fault.NotFound("acme account")
	}
	if err != nil {
		return fmt.Errorf("save certificate: %w", err)
	}
	return nil
}

func nullable(id int64) sql.NullInt64 { return sql.NullInt64{Int64: id, Valid: id != 0} }

// materials loads what is long or secret.
func materials(ctx context.Context, q sqldb.Querier, certID int64) (materialRow, error) {
	m, err := New(q).materialsOf(ctx, certID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return materialRow{}, errNotFound()
	}
	if err != nil {
		return materialRow{}, fmt.Errorf("load certificate materials: %w", err)
	}
	return m, nil
}
