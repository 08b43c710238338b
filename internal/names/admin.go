package names

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Search is what administrators look for.
type Search struct {
	Name  string // all claims in its registrable domain; "": everywhere
	State string // PENDING, HELD or CLASH; "": all. Not with Name.
}

// Find returns a page of all users' names.
func (s *Service) Find(ctx context.Context, by Search, page web.Page) (list []Claim, total int64, err error) {
	q := New(s.DB.Reader())
	var rows []claimRow
	switch {
	case by.Name != "" && by.State != "":
		return nil, 0, fault.Invalid("state", "stands without name, or name without state")
	case by.Name != "":
		name, problem := Normal(by.Name)
		if problem != "" {
			return nil, 0, fault.Invalid("name", "%s", problem)
		}
		domain, _ := Domain(name)
		if total, err = q.countClaimsOfDomain(ctx, domain); err == nil {
			rows, err = q.claimsOfDomain(ctx, claimsOfDomainParams{Domain: domain, Max: page.Limit, Skip: page.Offset})
		}
	case by.State != "":
		if total, err = q.countClaimsInState(ctx, by.State); err == nil {
			rows, err = q.claimsInState(ctx, claimsInStateParams{State: by.State, Max: page.Limit, Skip: page.Offset})
		}
	default:
		if total, err = q.countAllClaims(ctx); err == nil {
			rows, err = q.allClaims(ctx, allClaimsParams{Max: page.Limit, Skip: page.Offset})
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list names: %w", err)
	}
	list = make([]Claim, len(rows))
	for i := range rows {
		list[i] = s.shown(&rows[i])
	}
	return list, total, nil
}

// Give makes a name a user's that no other user holds. given is false, and
// nothing is written, when an administrator gave it to that user before.
func (s *Service) Give(ctx context.Context, adminID, userID int64, entry string) (c Claim, given bool, err error) {
	name, problem := Normal(entry)
	if problem != "" {
		return c, false, fault.Invalid("name", "%s", problem)
	}
	if isWildcard(name) {
		return c, false, fault.Invalid("name", "is a wildcard; give %s, it holds for all names below", base(name))
	}
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.lock(ctx, tx, name); err != nil {
			return err
		}
		held, err := New(tx).heldClaim(ctx, name)
		if err == nil && held.UserID.Int64 != userID {
			return fault.Conflict("Another user holds the name; move it.")
		}
		if given = err != nil || held.Proof != proofAdmin; !given {
			c = s.shown(&held)
			return nil
		}
		if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
			return fmt.Errorf("read a claim: %w", err)
		}
		c, err = s.assign(ctx, tx, adminID, userID, name, nil)
		return err
	})
	return c, given, err
}

// Move gives a name that a user holds to another one. It moves no certificate.
func (s *Service) Move(ctx context.Context, adminID, id, userID int64) (c Claim, err error) {
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := s.any(ctx, tx, id)
		if err != nil {
			return err
		}
		if row.State != stateHeld {
			return fault.Conflict("The name is not held; give it instead.")
		}
		if row.UserID.Int64 == userID {
			c = s.shown(&row)
			return nil
		}
		c, err = s.assign(ctx, tx, adminID, userID, row.Name, []claimRow{row})
		return err
	})
	return c, err
}

func (s *Service) assign(ctx context.Context, tx *sqldb.Tx, adminID, userID int64, name string, from []claimRow) (Claim, error) {
	ok, err := s.Users.Exists(ctx, tx, userID)
	if err != nil {
		return Claim{}, err
	}
	if !ok {
		return Claim{}, fault.Invalid("user_id", "must be the id of a user")
	}
	if err := s.move(ctx, tx, userID, name, proofAdmin, from, nil); err != nil {
		return Claim{}, err
	}
	if err := s.note(ctx, tx, adminID, "admin.name.give", name, map[string]any{"user": userID}); err != nil {
		return Claim{}, err
	}
	if err := s.tell(ctx, tx, userID, "name-given", givenLetter(name)); err != nil {
		return Claim{}, err
	}
	row, err := own(ctx, tx, userID, name)
	if err != nil {
		return Claim{}, err
	}
	return s.shown(row), nil
}

// Free deletes a claim of any user, who is told.
func (s *Service) Free(ctx context.Context, adminID, id int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := s.any(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.drop(ctx, tx, &row); err != nil {
			return err
		}
		holder := row.UserID.Int64
		if err := s.note(ctx, tx, adminID, "admin.name.release", row.Name, map[string]any{"user": holder}); err != nil {
			return err
		}
		if err := s.note(ctx, tx, holder, "name.release", row.Name, map[string]any{"by": "administrator"}); err != nil {
			return err
		}
		return s.tell(ctx, tx, holder, "name-released", releasedLetter(row.Name))
	})
}

// any is a claim of any user, locked.
func (s *Service) any(ctx context.Context, tx *sqldb.Tx, id int64) (claimRow, error) {
	row, err := New(tx).claimByID(ctx, id)
	if err == nil {
		if err := s.lock(ctx, tx, row.Name); err != nil {
			return row, err
		}
		row, err = New(tx).claimByID(ctx, id)
	}
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return row, fault.NotFound("name")
	}
	if err != nil {
		return row, fmt.Errorf("read a claim: %w", err)
	}
	return row, nil
}
