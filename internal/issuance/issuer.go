package issuance

import (
	"context"
	"crypto/x509"
	"fmt"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Revoke revokes a leaf (DER) at the CA of the certificate's account; reason is
// a code of RFC 5280 section 5.3.1. One that is revoked already is no error. A
// refusal of the CA is a fault (5030), one that may pass 5014. It calls the CA:
// never call it inside a transaction.
func (s *Service) Revoke(ctx context.Context, cert certs.Certificate, leafDER []byte, reason int) error {
	leaf, err := x509.ParseCertificate(leafDER)
	if err != nil {
		return fmt.Errorf("parse leaf of certificate %d: %w", cert.ID, err)
	}
	account, err := s.Accounts.Get(ctx, s.DB.Reader(), cert.UserID, cert.AcctID)
	if err != nil {
		return err
	}
	client, atCA, err := s.Accounts.Client(&account)
	if err == nil && atCA.URL == "" {
		if err = s.Accounts.Register(ctx, &account); err == nil {
			client, atCA, err = s.Accounts.Client(&account)
		}
	}
	if err == nil {
		err = client.Revoke(ctx, atCA, leaf, reason)
	}
	if err == nil {
		return nil
	}
	p := acme.AsProblem(err)
	if p.Class == acme.Retry {
		return fault.Unavailable(max(p.RetryAfter, firstWait), "The CA could not revoke now: "+p.Error(), err)
	}
	return fault.Conflict("The CA refused to revoke: %s", p.Error()).Because(err)
}

// VerifyDomain checks that the names can be verified: that the certificate has
// an account at an authority and a challenge that this server can answer. The
// authority itself looks at the names in every order; ACME has no other way.
func (s *Service) VerifyDomain(ctx context.Context, tx *sqldb.Tx, cert certs.Certificate) error {
	return s.issuable(ctx, tx, cert)
}
