package names

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// held reads what decides in a domain.
func (s *Service) held(ctx context.Context, q sqldb.Querier, userID int64, domain string) ([]holding, error) {
	rows, err := New(q).claimsIn(ctx, claimsInParams{Domain: domain, UserID: nullable(userID), Max: manyClaims})
	if err != nil {
		return nil, fmt.Errorf("read the claims on a domain: %w", err)
	}
	held := make([]holding, 0, len(rows))
	others := false
	for _, row := range rows {
		held = append(held, fromRow(row))
		others = others || row.UserID.Int64 != userID
	}
	if !others {
		return held, nil
	}
	grants, err := New(q).grantsTo(ctx, grantsToParams{UserID: userID, Domain: domain, Now: s.Now().UnixMilli(), Max: maxGrants})
	if err != nil {
		return nil, fmt.Errorf("read the grants on a domain: %w", err)
	}
	for _, g := range grants {
		for i := range held {
			if held[i].id == g.ClaimID {
				held[i].grants = append(held[i].grants, permit{pattern: g.Pattern, ended: g.EndedAt > 0})
			}
		}
	}
	return held, nil
}

// heldOn adds the claims on the name's own path, of a domain with so many that
// held may have left them out.
func (s *Service) heldOn(ctx context.Context, q sqldb.Querier, userID int64, name string, held []holding) ([]holding, error) {
	all := append([]holding{}, held...)
	known := map[int64]bool{}
	for _, h := range held {
		known[h.id] = true
	}
	add := func(row claimRow, err error) error {
		if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && known[row.ID] {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a claim: %w", err)
		}
		known[row.ID] = true
		all = append(all, fromRow(row))
		return nil
	}
	for _, at := range path(name) {
		if err := add(New(q).heldClaim(ctx, at)); err != nil {
			return nil, err
		}
		if err := add(New(q).claimOf(ctx, claimOfParams{UserID: nullable(userID), Name: at})); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func fromRow(row claimRow) holding {
	return holding{id: row.ID, userID: row.UserID.Int64, name: row.Name, lapsed: row.LapsedAt > 0, state: row.State}
}

// save writes what may change of a claim.
func save(ctx context.Context, tx *sqldb.Tx, c *claimRow) error {
	err := New(tx).saveClaim(ctx, saveClaimParams{
		ID: c.ID, UserID: c.UserID, State: c.State, Proof: c.Proof, IssuanceID: c.IssuanceID, TakenFrom: c.TakenFrom, HeldAt: c.HeldAt,
		LostAt: c.LostAt, CheckedAt: c.CheckedAt, NextCheckAt: c.NextCheckAt, AbsentSince: c.AbsentSince, LapsedAt: c.LapsedAt, FreedAt: c.FreedAt,
	})
	if err != nil {
		return fmt.Errorf("save the claim on %s: %w", c.Name, err)
	}
	return nil
}

// own returns the user's row for the name, or nil.
func own(ctx context.Context, q sqldb.Querier, userID int64, name string) (*claimRow, error) {
	row, err := New(q).claimOf(ctx, claimOfParams{UserID: nullable(userID), Name: name})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the claim on %s: %w", name, err)
	}
	return &row, nil
}

// expect makes the name one of those of which the user's record is awaited. A
// user with very many has to ask for it.
func (s *Service) expect(ctx context.Context, tx *sqldb.Tx, userID int64, name string) error {
	if !listed(name) {
		return nil
	}
	before, err := own(ctx, tx, userID, name)
	if err != nil || before != nil {
		return err
	}
	n, err := New(tx).countClaims(ctx, countClaimsParams{UserID: nullable(userID), State: statePending})
	if err != nil {
		return fmt.Errorf("count pending names: %w", err)
	}
	if n >= maxPending {
		return nil
	}
	return s.insert(ctx, tx, userID, name, statePending, "", 0)
}

// insert makes a row of the user for the name.
func (s *Service) insert(ctx context.Context, tx *sqldb.Tx, userID int64, name, state, proof string, issuanceID int64) error {
	now := s.Now().UnixMilli()
	domain, _ := Domain(name)
	p := insertClaimParams{UserID: nullable(userID), Name: name, Domain: domain, State: state, Proof: proof, IssuanceID: nullable(issuanceID), Now: now}
	if state == stateHeld {
		p.HeldAt = now
	}
	if err := New(tx).insertClaim(ctx, p); err != nil {
		return fmt.Errorf("insert a claim on %s: %w", name, err)
	}
	return nil
}
