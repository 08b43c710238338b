package names

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Attempt is an order of which an authority has validated all names.
type Attempt struct {
	Order
	IssuanceID int64
	Directory  string   // address of the CA's ACME directory
	BuiltIn    bool     // it is one that this program knows
	Validated  []string // those names that were validated now; the others were valid from earlier orders
}

// Finalize is MayOrder for an order that is about to be finalised. Under the
// policy first-come it also claims what nobody holds, for as long as the attempt
// lasts: of two users who come at the same time one goes on. Only a CA that is
// built in or named by the operator is believed, and only about names that it
// validated for this very order.
func (s *Service) Finalize(ctx context.Context, tx *sqldb.Tx, a Attempt) error {
	if err := s.MayOrder(ctx, tx, a.Order); err != nil {
		return err
	}
	if s.Proved || !a.BuiltIn && !slices.Contains(s.Directories, a.Directory) {
		return nil
	}
	for _, name := range a.Validated {
		if err := s.comeFirst(ctx, tx, a, name); err != nil {
			return err
		}
	}
	return nil
}

// comeFirst claims the domain of the name for the attempt where it is free.
func (s *Service) comeFirst(ctx context.Context, tx *sqldb.Tx, a Attempt, name string) error {
	domain, _ := Domain(name)
	if s.rules.reserved.Has(name) || s.rules.reserved.Has(domain) {
		return nil // the name of this server needs no claim
	}
	held, err := s.held(ctx, tx, a.UserID, domain)
	if err != nil {
		return err
	}
	for _, h := range held {
		if h.state == stateHeld && (h.userID != a.UserID || h.name == domain) {
			return nil
		}
	}
	n, err := New(tx).countClaims(ctx, countClaimsParams{UserID: nullable(a.UserID), State: stateHeld})
	if err != nil {
		return fmt.Errorf("count claims: %w", err)
	}
	if n >= maxHeld {
		s.Log.WarnContext(ctx, "a user holds too many names to claim another", "user_id", a.UserID, "name", domain)
		return nil
	}
	before, err := own(ctx, tx, a.UserID, domain)
	if err != nil {
		return err
	}
	if before == nil {
		return s.insert(ctx, tx, a.UserID, domain, stateHeld, proofIssue, a.IssuanceID)
	}
	before.State, before.Proof, before.IssuanceID = stateHeld, proofIssue, nullable(a.IssuanceID)
	before.HeldAt, before.LostAt, before.TakenFrom = s.Now().UnixMilli(), 0, 0
	return save(ctx, tx, before)
}

// Issued makes what the attempt claimed the user's for good, in the transaction
// that stores the certificate.
func (s *Service) Issued(ctx context.Context, tx *sqldb.Tx, issuanceID int64) error {
	rows, err := New(tx).claimsOfIssuance(ctx, nullable(issuanceID))
	if err != nil {
		return fmt.Errorf("read what an attempt claimed: %w", err)
	}
	for i := range rows {
		rows[i].IssuanceID = nullable(0)
		if err := save(ctx, tx, &rows[i]); err != nil {
			return err
		}
		err := s.Audit.Record(ctx, tx, audit.Entry{
			UserID: rows[i].UserID.Int64, Action: "name.claim", Object: object(rows[i].Name),
			Detail: map[string]any{"name": rows[i].Name, "proof": rows[i].Proof, "issue_id": issuanceID},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Ended gives back what the attempt claimed and brought no certificate for.
// Lock nothing of the attempt that others lock after claims before it.
func (s *Service) Ended(ctx context.Context, tx *sqldb.Tx, issuanceID int64) error {
	rows, err := New(tx).claimsOfIssuance(ctx, nullable(issuanceID))
	if err != nil {
		return fmt.Errorf("read what an attempt claimed: %w", err)
	}
	for i := range rows {
		c := &rows[i]
		if c.CreatedAt == c.HeldAt { // the attempt made it
			if _, err := New(tx).deleteClaim(ctx, c.ID); err != nil {
				return fmt.Errorf("drop the claim on %s: %w", c.Name, err)
			}
			continue
		}
		c.State, c.Proof, c.IssuanceID, c.HeldAt = statePending, "", nullable(0), 0
		if err := save(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}
