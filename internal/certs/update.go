package certs

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/feed"
	"certharbor.dev/certharbor/internal/sqldb"
)

func object(id int64) string { return fmt.Sprintf("certificate %d", id) }

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// update sets the given members. Names, account, key algorithm and subject
// count from the next issuance on; policy and server_decrypt_export at once. A
// person who lets more have the key than before needs a fresh proof (5034).
func (s *Service) update(ctx context.Context, userID, id int64, f *Fields) (c Certificate, warnings []string, err error) {
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		if c, err = s.lock(ctx, tx, userID, id); err != nil {
			return err
		}
		before := c
		if c.Origin == OriginCSR && (f.DomainName != nil || f.SANs != nil) {
			return fault.Invalid("sans", "are those of the signing request; make a new certificate for other names")
		}
		if err := c.applyNames(f); err != nil {
			return err
		}
		if err := s.settle(ctx, tx, &c, f); err != nil {
			return err
		}
		if c.Names().SetKey() != before.Names().SetKey() || c.AcctID != before.AcctID {
			if warnings, err = s.askNames(ctx, tx, &c); err != nil {
				return err
			}
		}
		if renewsDifferently(&before, &c) {
			c.NextRenewalAt, c.RenewalBlocked = c.renewAt(s.Now()), ""
		}
		if f.Policy != nil {
			policy, err := ParsePolicy(*f.Policy)
			if err != nil {
				return fault.Invalid("policy", "%v", err)
			}
			c.Policy, c.nextPolicy = policy, ""
		}
		if widens(&before, &c) {
			if err := s.fresh(ctx); err != nil {
				return err
			}
		}
		if err := s.changeCustody(ctx, tx, &before, &c); err != nil {
			return err
		}
		if err := s.replan(ctx, tx, &before, &c); err != nil {
			return err
		}
		if err := s.save(ctx, tx, &c); err != nil {
			return err
		}
		m, err := materials(ctx, tx, id)
		if err != nil {
			return err
		}
		c.Heavy = heavy(m.ChainPem, m.Csr)
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "certificate.update", Object: object(id), Detail: changes(&before, &c)})
	})
	return c, warnings, err
}

// widens tells whether more than before may have the private key: the server
// again, the assigned devices, or anybody whom a device answers in plain text.
func widens(before, after *Certificate) bool {
	return after.ServerDecryptExport && !before.ServerDecryptExport ||
		before.Policy != after.Policy && before.Policy != PolicyHybrid ||
		before.nextPolicy == PolicyDeviceRequired && after.Policy != PolicyDeviceRequired && after.nextPolicy != PolicyDeviceRequired
}

func renewsDifferently(a, b *Certificate) bool {
	windowA, windowB := RenewalWindow{}, RenewalWindow{}
	set(&windowA, a.RenewalWindow)
	set(&windowB, b.RenewalWindow)
	return a.AutoRenew != b.AutoRenew || a.RenewBeforeDays != b.RenewBeforeDays || a.AcctID != b.AcctID ||
		windowA.StartHour != windowB.StartHour || windowA.EndHour != windowB.EndHour || !slices.Equal(windowA.Weekdays, windowB.Weekdays)
}

// changes names for the log what decides about who gets the key.
func changes(a, b *Certificate) map[string]any {
	detail := map[string]any{}
	if a.Policy != b.Policy {
		detail["policy"] = b.Policy
	}
	if a.ServerDecryptExport != b.ServerDecryptExport {
		detail["server_decrypt_export"] = b.ServerDecryptExport
	}
	if a.AcctID != b.AcctID {
		detail["acct_id"] = b.AcctID
	}
	return detail
}

// changeCustody does to the stored wraps what a change of policy asks for, and
// tells the devices that can fetch the key.
func (s *Service) changeCustody(ctx context.Context, tx *sqldb.Tx, before, c *Certificate) error {
	if before.Policy == c.Policy && before.ServerDecryptExport == c.ServerDecryptExport {
		return nil
	}
	m, err := materials(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	plan, err := PlanPolicyChange(before.Policy, c.Policy, m.KeyCiphertext != nil, m.DataKey != nil)
	if err != nil {
		return err
	}
	devices, err := assignees(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if plan.WrapDevices {
		if err := s.wrapMissing(ctx, tx, c.Policy, &m, devices); err != nil {
			return err
		}
	}
	if plan.DropServerWrap {
		if err := New(tx).dropServerWrap(ctx, c.ID); err != nil {
			return fmt.Errorf("drop the server's wrap: %w", err)
		}
	}
	if plan.DropDeviceWraps {
		if err := New(tx).dropWraps(ctx, c.ID); err != nil {
			return fmt.Errorf("drop device wraps: %w", err)
		}
		for i := range devices {
			devices[i].keyFP = nil
		}
	}
	return s.announce(ctx, tx, c, &m, devices)
}

// replan plans the re-issue that a change of settings allows at last.
func (s *Service) replan(ctx context.Context, tx *sqldb.Tx, before, c *Certificate) error {
	if before.reissues() || !c.reissues() {
		return nil
	}
	m, err := materials(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	devices, err := assignees(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	return s.planReissue(ctx, tx, c, &m, devices)
}

// remove deletes the record and everything that belongs to it.
func (s *Service) remove(ctx context.Context, userID, id int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := s.lock(ctx, tx, userID, id); err != nil {
			return err
		}
		devices, err := assignees(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := New(tx).deleteCertificate(ctx, id); err != nil {
			return fmt.Errorf("delete certificate: %w", err)
		}
		for _, d := range devices {
			if err := s.Feed.Append(ctx, tx, d.deviceID, feed.CertUnassigned(id)); err != nil {
				return fmt.Errorf("signal cert.unassigned: %w", err)
			}
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: "certificate.delete", Object: object(id)})
	})
}
