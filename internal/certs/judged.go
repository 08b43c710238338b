package certs

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
)

// walkBatch is how many of a user's certificates are looked at in one read.
const walkBatch = 500

// Judge blocks and unblocks the renewals of the user's certificates with names
// in the registrable domain, as the rules about names are now.
func (s *Service) Judge(ctx context.Context, userID int64, domain string) error {
	return s.walk(ctx, userID, func(c *Certificate) error {
		affected := slices.ContainsFunc(c.Names().All(), func(name string) bool {
			of, _ := names.Domain(name)
			return of == domain
		})
		if !affected || !c.Issued() || c.AcctID == 0 || c.NextRenewalAt == 0 && c.RenewalBlocked == "" {
			return nil
		}
		return s.judgeOne(ctx, c)
	})
}

func (s *Service) judgeOne(ctx context.Context, seen *Certificate) error {
	account, err := s.Accounts.Get(ctx, s.DB.Reader(), seen.UserID, seen.AcctID)
	if fault.Is(err, fault.CodeNotFound) || err == nil && account.OwnCA() {
		return nil
	}
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		c, err := s.lock(ctx, tx, seen.UserID, seen.ID)
		if fault.Is(err, fault.CodeNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		refused := s.Names.Check(ctx, tx, c.Order())
		if refused != nil && !names.Refused(refused) {
			return refused
		}
		if (refused != nil) == (c.RenewalBlocked != "") {
			return nil
		}
		action := "certificate.renewal_unblocked"
		c.NextRenewalAt, c.RenewalBlocked = c.renewAt(s.Now()), ""
		if refused != nil {
			action = "certificate.renewal_blocked"
			c.NextRenewalAt, c.RenewalBlocked = 0, fault.As(refused).What
		}
		if err := s.save(ctx, tx, &c); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: c.UserID, Action: action, Object: object(c.ID), Detail: map[string]any{"reason": c.RenewalBlocked}})
	})
}

// maxStillValid certificates of a former holder are shown.
const maxStillValid = 100

// StillValid lists the user's certificates for names at or below the name that
// have neither expired nor been revoked.
func (s *Service) StillValid(ctx context.Context, userID int64, name string) ([]names.ValidCertificate, error) {
	var list []names.ValidCertificate
	err := s.walk(ctx, userID, func(c *Certificate) error {
		if c.Status != StatusActive || len(list) == maxStillValid {
			return nil
		}
		all := slices.DeleteFunc(c.Names().All(), func(n string) bool { return !names.Below(name, n) })
		if len(all) > 0 {
			list = append(list, names.ValidCertificate{Names: all, SerialNumber: c.SerialNumber, Issuer: c.Issuer, NotAfter: c.NotAfter})
		}
		return nil
	})
	return list, err
}

// walk calls each for every certificate of the user, without heavy members.
func (s *Service) walk(ctx context.Context, userID int64, each func(*Certificate) error) error {
	for skip := int64(0); ; skip += walkBatch {
		rows, err := New(s.DB.Reader()).certificatesOf(ctx, certificatesOfParams{UserID: userID, Max: walkBatch, Skip: skip})
		if err != nil {
			return fmt.Errorf("list certificates: %w", err)
		}
		for i := range rows {
			c, err := fromRow(&rows[i], s.Now())
			if err != nil {
				return err
			}
			if err := each(&c); err != nil {
				return err
			}
		}
		if len(rows) < walkBatch {
			return nil
		}
	}
}
