package certs

import (
	"context"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// export makes the file of an export and records it.
func (s *Service) export(ctx context.Context, caller *access.Caller, certID int64, format Format) (File, error) {
	c, err := s.Record(ctx, s.DB.Reader(), caller.UserID, certID)
	if err != nil {
		return File{}, err
	}
	m, err := materials(ctx, s.DB.Reader(), certID)
	if err != nil {
		return File{}, err
	}
	if m.ChainPem == "" {
		return File{}, fault.NotIssued()
	}
	bundle := Bundle{CertID: certID, Domain: c.DomainName, Time: s.Now(), KeyWithheld: c.Policy.KeyWithheld(m.KeyCiphertext != nil)}
	if bundle.Chain, err = storedChain(m.ChainPem); err != nil {
		return File{}, err
	}
	withKey := bundle.KeyWithheld == "" && format != FormatDER
	if withKey {
		if err := s.StepUp.RequireStepUp(ctx, s.DB.Reader()); err != nil {
			return File{}, err
		}
		if bundle.Key, err = s.openKey(&m); err != nil {
			return File{}, err
		}
		defer clear(bundle.Key)
	}
	file, err := bundle.Export(format)
	if err != nil {
		return File{}, err
	}
	return file, s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		return s.Audit.Record(ctx, tx, audit.Entry{
			UserID: caller.UserID, Action: "certificate.export", Object: object(certID),
			Detail: map[string]any{"format": format, "with_key": withKey, "serial_number": c.SerialNumber},
		})
	})
}
