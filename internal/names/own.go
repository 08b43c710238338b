package names

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Claim is a name of a user as the API shows it. Times are Unix ms, 0: not.
type Claim struct {
	ID          int64     `json:"id"`
	UserID      int64     `json:"user_id"`
	Name        string    `json:"name" doc:"It holds for all names below as well."`
	State       string    `json:"state" enum:"PENDING,HELD,LOST,LAPSED,CLASH" doc:"LOST: another has it. LAPSED: its record was gone for 30 days. CLASH: older certificates renew."`
	Proof       string    `json:"proof" doc:"issue, txt, admin or upgrade; empty: none yet."`
	Record      TXTRecord `json:"record" doc:"The TXT record that proves the name, and keeps others from taking it."`
	Reason      string    `json:"reason" doc:"What the last look-up found, when it was not the record."`
	HeldAt      int64     `json:"held_at"`
	LostAt      int64     `json:"lost_at"`
	CheckedAt   int64     `json:"checked_at"`
	AbsentSince int64     `json:"absent_since" doc:"Since when the record is missing; after 30 days renewals stop."`
	CreatedAt   int64     `json:"created_at"`

	StillValid []ValidCertificate `json:"still_valid,omitempty" doc:"On the single item: certificates of the user who held the name before."`
}

// ValidCertificate is a certificate of a former holder that has not expired.
type ValidCertificate struct {
	Names        []string `json:"names"`
	SerialNumber string   `json:"serial_number"`
	Issuer       string   `json:"issuer"`
	NotAfter     int64    `json:"not_after"`
}

func (s *Service) shown(row *claimRow) Claim {
	c := Claim{
		ID: row.ID, UserID: row.UserID.Int64, Name: row.Name, State: row.State, Proof: row.Proof, Record: s.record(row.UserID.Int64, row.Name),
		HeldAt: row.HeldAt, LostAt: row.LostAt, CheckedAt: row.CheckedAt, AbsentSince: row.AbsentSince, CreatedAt: row.CreatedAt,
	}
	switch {
	case row.State == statePending && row.LostAt > 0:
		c.State = "LOST"
	case row.LapsedAt > 0:
		c.State = "LAPSED"
	}
	return c
}

// List returns a page of the user's names, by name, and their number.
func (s *Service) List(ctx context.Context, userID int64, page web.Page) ([]Claim, int64, error) {
	q := New(s.DB.Reader())
	total, err := q.countClaimsOf(ctx, nullable(userID))
	if err != nil {
		return nil, 0, fmt.Errorf("count names: %w", err)
	}
	rows, err := q.claimsOf(ctx, claimsOfParams{UserID: nullable(userID), Max: page.Limit, Skip: page.Offset})
	if err != nil {
		return nil, 0, fmt.Errorf("list names: %w", err)
	}
	list := make([]Claim, len(rows))
	for i := range rows {
		list[i] = s.shown(&rows[i])
	}
	return list, total, nil
}

// Get returns one of the user's names.
func (s *Service) Get(ctx context.Context, userID, id int64) (Claim, error) {
	row, err := mine(ctx, s.DB.Reader(), userID, id)
	if err != nil {
		return Claim{}, err
	}
	c := s.shown(&row)
	if row.TakenFrom != 0 && row.State == stateHeld && s.Certificates != nil {
		if c.StillValid, err = s.Certificates.StillValid(ctx, row.TakenFrom, row.Name); err != nil {
			return Claim{}, err
		}
	}
	return c, nil
}

// Begin makes the name one of the user's, PENDING until its record is found.
// created is false where it was that before.
func (s *Service) Begin(ctx context.Context, userID int64, entry string) (c Claim, created bool, err error) {
	name, problem := Normal(entry)
	switch {
	case problem != "":
		return c, false, fault.Invalid("name", "%s", problem)
	case isWildcard(name):
		return c, false, fault.Invalid("name", "is a wildcard; prove %s, it holds for all names below", base(name))
	case !listed(name):
		return c, false, fault.Invalid("name", "stands below no public suffix, so that no record can prove it; an administrator gives such names")
	case s.rules.reserved.Has(name):
		return c, false, reserved(name)
	}
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.lock(ctx, tx, name); err != nil { // another request may begin the same
			return err
		}
		row, err := own(ctx, tx, userID, name)
		if err != nil {
			return err
		}
		if created = row == nil; created {
			n, err := New(tx).countClaims(ctx, countClaimsParams{UserID: nullable(userID), State: statePending})
			if err != nil {
				return fmt.Errorf("count pending names: %w", err)
			}
			if n >= maxPending {
				f := fault.Conflict("%d of your names wait for their records; prove or delete some of them first.", n)
				f.Key = "QUOTA"
				return f
			}
			if err := s.insert(ctx, tx, userID, name, statePending, "", 0); err != nil {
				return err
			}
			if row, err = own(ctx, tx, userID, name); err != nil {
				return err
			}
			if err := s.note(ctx, tx, userID, "name.begin", name, nil); err != nil {
				return err
			}
		}
		c = s.shown(row)
		return nil
	})
	return c, created, err
}

// Release gives a name of the user back, who needs a fresh proof (5034): the next
// user who orders there has it, and gets certificates with keys of their own.
func (s *Service) Release(ctx context.Context, userID, id int64) error {
	if err := s.StepUp.RequireStepUp(ctx, s.DB.Reader()); err != nil {
		return err
	}
	row, err := mine(ctx, s.DB.Reader(), userID, id)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.lock(ctx, tx, row.Name); err != nil {
			return err
		}
		if row, err = mine(ctx, tx, userID, id); err != nil {
			return err
		}
		if err := s.drop(ctx, tx, &row); err != nil {
			return err
		}
		if row.State == stateHeld {
			if err := s.tell(ctx, tx, userID, "name-released", givenBackLetter(row.Name)); err != nil {
				return err
			}
		}
		return s.note(ctx, tx, userID, "name.release", row.Name, nil)
	})
}

// drop deletes a claim, and what others had by it.
func (s *Service) drop(ctx context.Context, tx *sqldb.Tx, row *claimRow) error {
	changed, err := s.affected(ctx, tx, row)
	if err != nil {
		return err
	}
	if _, err := New(tx).deleteClaim(ctx, row.ID); err != nil {
		return fmt.Errorf("delete the claim on %s: %w", row.Name, err)
	}
	return s.changed(ctx, tx, row.Domain, changed...)
}

// affected lists who may order by the claim: its holder and those with grants.
func (s *Service) affected(ctx context.Context, q sqldb.Querier, row *claimRow) ([]int64, error) {
	list := []int64{row.UserID.Int64}
	grants, err := New(q).grantsOf(ctx, row.ID)
	if err != nil {
		return nil, fmt.Errorf("read the grants on %s: %w", row.Name, err)
	}
	for _, g := range grants {
		list = append(list, g.UserID)
	}
	return list, nil
}

func mine(ctx context.Context, q sqldb.Querier, userID, id int64) (claimRow, error) {
	row, err := New(q).claimByID(ctx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) || err == nil && row.UserID.Int64 != userID {
		return row, fault.NotFound("name")
	}
	if err != nil {
		return row, fmt.Errorf("read a claim: %w", err)
	}
	return row, nil
}

func (s *Service) note(ctx context.Context, tx *sqldb.Tx, userID int64, action, name string, detail map[string]any) error {
	if userID == 0 {
		return nil
	}
	if detail == nil {
		detail = map[string]any{}
	}
	detail["name"] = name
	return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: action, Object: object(name), Detail: detail})
}
