package certs

import (
	"context"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// freshSignIn is how long ago a person may have signed in to export a private
// key (decisions.md section 2).
const freshSignIn = 15 * time.Minute

// requireFresh refuses a person whose sign-in is too old. Keys are exempt
// (decisions.md 8.7).
func requireFresh(caller *access.Caller, now time.Time) error {
	if caller.Kind != access.KindSession || now.UnixMilli()-caller.AuthTime <= freshSignIn.Milliseconds() {
		return nil
	}
	return &fault.Error{
		Code: fault.CodeStepUpRequired, Key: "STEP_UP_REQUIRED",
		What: "Exporting a private key needs a sign-in within the last 15 minutes; sign in again.",
	}
}

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
		if err := requireFresh(caller, s.Now()); err != nil {
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
