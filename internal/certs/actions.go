package certs

import (
	"context"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

func (s *Service) needIssuer() (Issuer, error) {
	if s.issuer == nil {
		return nil, fault.Unavailable(time.Minute, "Issuance is not running on this server.", nil)
	}
	return s.issuer, nil
}

// verifyDomain has the CA verify the names.
func (s *Service) verifyDomain(ctx context.Context, userID, id int64) error {
	issuer, err := s.needIssuer()
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		c, err := s.lock(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		return issuer.VerifyDomain(ctx, tx, c)
	})
}

// rekey starts an issuance, whose key is always new. A policy is that of the
// new key: the way back from DEVICE_REQUIRED. A person needs a fresh proof (5034).
func (s *Service) rekey(ctx context.Context, userID, id int64, f *Fields) (Certificate, error) {
	if err := s.fresh(ctx); err != nil {
		return Certificate{}, err
	}
	issuer, err := s.needIssuer()
	if err != nil {
		return Certificate{}, err
	}
	rest := *f
	rest.Policy, rest.KeyAlgorithm = nil, nil
	if !rest.empty() {
		return Certificate{}, fault.Invalid("action", "rekey takes policy and key_algorithm beside it; use update for other members")
	}
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		c, err := s.lock(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		if c.Origin == OriginCSR {
			return fault.Conflict("The key belongs to the signing request; make a new certificate for another key.")
		}
		if err := s.settle(ctx, tx, &c, &Fields{KeyAlgorithm: f.KeyAlgorithm}); err != nil {
			return err
		}
		if f.Policy != nil {
			if c.nextPolicy, err = ParsePolicy(*f.Policy); err != nil {
				return fault.Invalid("policy", "%v", err)
			}
		}
		if err := s.save(ctx, tx, &c); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "certificate.rekey", Object: object(id)})
	})
	if err != nil {
		return Certificate{}, err
	}
	trigger := "manual"
	if c := access.From(ctx); c != nil && c.Kind == access.KindKey {
		trigger = "api_key"
	}
	if err := issuer.Start(ctx, userID, id, trigger); err != nil {
		return Certificate{}, err
	}
	return s.Record(ctx, s.DB.Reader(), userID, id)
}

// ownersReason tells whether an owner may give this code of RFC 5280 section
// 5.3.1; the others are for CAs.
func ownersReason(code int64) bool { return slices.Contains([]int64{0, 1, 3, 4, 5, 9}, code) }

// revoke revokes the present leaf at its CA and then in the record. Where the
// leaf was renewed meanwhile the new one stays as it is.
func (s *Service) revoke(ctx context.Context, userID, id, reason int64) (Certificate, error) {
	if !ownersReason(reason) {
		return Certificate{}, fault.Invalid("reason", "must be 0 (unspecified), 1 (key compromise), 3 (affiliation changed), "+
			"4 (superseded), 5 (cessation of operation) or 9 (privilege withdrawn)")
	}
	issuer, err := s.needIssuer()
	if err != nil {
		return Certificate{}, err
	}
	c, err := s.Record(ctx, s.DB.Reader(), userID, id)
	if err != nil {
		return Certificate{}, err
	}
	switch {
	case !c.Issued():
		return Certificate{}, fault.NotIssued()
	case c.RevokedAt != 0:
		return c, nil
	}
	chain, err := storedChain(c.Cert)
	if err != nil {
		return Certificate{}, err
	}
	if err := issuer.Revoke(ctx, c, chain.Leaf.Raw, int(reason)); err != nil {
		return Certificate{}, err
	}
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error { return s.noteRevoked(ctx, tx, &c, reason) })
	if err != nil {
		return Certificate{}, err
	}
	return s.Record(ctx, s.DB.Reader(), userID, id)
}

func (s *Service) noteRevoked(ctx context.Context, tx *sqldb.Tx, revoked *Certificate, reason int64) error {
	c, err := s.lock(ctx, tx, revoked.UserID, revoked.ID)
	if err != nil {
		return err
	}
	if c.FingerprintSHA256 == revoked.FingerprintSHA256 && c.RevokedAt == 0 {
		c.RevokedAt, c.RevokeReason, c.NextRenewalAt = s.Now().UnixMilli(), reason, 0
		if err := s.save(ctx, tx, &c); err != nil {
			return err
		}
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: c.UserID, Action: "certificate.revoke", Object: object(c.ID),
		Detail: map[string]any{"serial_number": revoked.SerialNumber, "reason": reason},
	})
}
