package names

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Success is a certificate that was issued before claims were kept.
type Success struct {
	UserID    int64
	Names     []string
	Directory string
	BuiltIn   bool
}

// stepUpgrade makes claims of what was issued before they were kept.
const stepUpgrade = "claims of past certificates"

// upgradeBatch is how many domains one transaction claims.
const upgradeBatch = 200

// pastClaim is what the step makes: a claim, or a clash with one.
type pastClaim struct {
	userID int64
	domain string
}

// Upgrade takes the step once in the life of a database, before anything is
// served: the domain of the earliest certificate is its owner's; others who had
// certificates there go on renewing them. It may be repeated, and taken by two
// nodes at once.
func (s *Service) Upgrade(ctx context.Context) error {
	_, err := New(s.DB.Reader()).stepDone(ctx, stepUpgrade)
	if err == nil {
		return nil
	}
	if !sqldb.Is(err, sqldb.ErrNotFound) {
		return fmt.Errorf("read what was done once: %w", err)
	}
	past, err := s.past(ctx)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(past, upgradeBatch) {
		err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			domains := make([]string, len(batch))
			for i, p := range batch {
				domains[i] = p.domain
			}
			if err := s.lock(ctx, tx, domains...); err != nil {
				return err
			}
			for _, p := range batch {
				if err := s.claimPast(ctx, tx, p); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("claim the names of past certificates: %w", err)
		}
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		_, err := New(tx).takeStep(ctx, takeStepParams{Step: stepUpgrade, DoneAt: s.Now().UnixMilli()})
		return err
	})
}

// past lists each user once for each domain, in the order of their first
// certificates.
func (s *Service) past(ctx context.Context) ([]pastClaim, error) {
	seen := map[pastClaim]bool{}
	var list []pastClaim
	err := s.Attempts.Past(ctx, func(old Success) {
		if !old.BuiltIn && !slices.Contains(s.Directories, old.Directory) {
			return
		}
		for _, name := range old.Names {
			domain, _ := Domain(name)
			p := pastClaim{old.UserID, domain}
			if !seen[p] && !s.rules.reserved.Has(name) && !s.rules.reserved.Has(domain) {
				seen[p] = true
				list = append(list, p)
			}
		}
	})
	return list, err
}

func (s *Service) claimPast(ctx context.Context, tx *sqldb.Tx, p pastClaim) error {
	row, err := own(ctx, tx, p.userID, p.domain)
	if err != nil || row != nil {
		return err
	}
	state := stateHeld
	if _, err := New(tx).heldClaim(ctx, p.domain); err == nil {
		state = stateClash
	} else if !sqldb.Is(err, sqldb.ErrNotFound) {
		return fmt.Errorf("read a claim: %w", err)
	}
	if err := s.insert(ctx, tx, p.userID, p.domain, state, proofUpgrade, 0); err != nil {
		return err
	}
	action := "name.claim"
	if state == stateClash {
		action = "name.clash"
	}
	return s.note(ctx, tx, p.userID, action, p.domain, map[string]any{"proof": proofUpgrade})
}
