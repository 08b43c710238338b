package names

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
)

// notice is how long before its end a grant is announced, and how long what is
// there renews after the holder ended it.
const notice = 7 * 24 * time.Hour

// Grant lets another user order below a name. Times are Unix ms, 0: not.
type Grant struct {
	ID        int64  `json:"id"`
	NameID    int64  `json:"name_id"`
	User      int64  `json:"user" doc:"The id of the user who may order."`
	Pattern   string `json:"pattern" doc:"A name, or *.name for one label below it."`
	Expires   int64  `json:"expires" doc:"0: never."`
	EndedAt   int64  `json:"ended_at" doc:"When the holder ended it; certificates that were there renew for 7 days more."`
	StopsAt   int64  `json:"stops_at"`
	CreatedAt int64  `json:"created_at"`
}

// GrantDraft is what the holder of a name asks for.
type GrantDraft struct {
	User    int64  `json:"user" minimum:"1" doc:"The id of the user who may order."`
	Pattern string `json:"pattern" minLength:"1" maxLength:"260" doc:"A name at or below yours, or *.name for one label below it; wildcard certificates are never granted."`
	Expires int64  `json:"expires,omitempty" minimum:"0" doc:"Unix ms; 0 or absent: never."`
}

func grantOf(g *grantRow) Grant {
	return Grant{
		ID: g.ID, NameID: g.ClaimID, User: g.UserID, Pattern: g.Pattern, Expires: g.ExpiresAt, EndedAt: g.EndedAt, StopsAt: g.StopsAt, CreatedAt: g.CreatedAt,
	}
}

// Grants lists the grants on a name of the user, oldest first.
func (s *Service) Grants(ctx context.Context, userID, nameID int64) ([]Grant, error) {
	if _, err := mine(ctx, s.DB.Reader(), userID, nameID); err != nil {
		return nil, err
	}
	rows, err := New(s.DB.Reader()).grantsOf(ctx, nameID)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	list := make([]Grant, len(rows))
	for i := range rows {
		list[i] = grantOf(&rows[i])
	}
	return list, nil
}

// Grant lets another user order. A person needs a fresh proof; both are told.
func (s *Service) Grant(ctx context.Context, userID, nameID int64, d GrantDraft) (g Grant, err error) {
	pattern, problem := Normal(d.Pattern)
	if problem != "" {
		return g, fault.Invalid("pattern", "%s", problem)
	}
	if d.Expires != 0 && d.Expires <= s.Now().UnixMilli() {
		return g, fault.Invalid("expires", "is past; give Unix milliseconds in the future, or 0")
	}
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := s.grantable(ctx, tx, userID, nameID)
		if err != nil {
			return err
		}
		if !covers(row.Name, pattern) {
			return fault.Invalid("pattern", "must be %s, a name below it, or *. and such a name", row.Name)
		}
		ok, err := s.Users.Exists(ctx, tx, d.User)
		if err != nil {
			return err
		}
		if !ok || d.User == userID {
			return fault.Invalid("user", "must be the id of another user")
		}
		list, err := New(tx).grantsOf(ctx, nameID)
		if err != nil {
			return fmt.Errorf("list grants: %w", err)
		}
		if len(list) >= maxGrants {
			f := fault.Conflict("A name has at most %d grants; end some of them first.", maxGrants)
			f.Key = "QUOTA"
			return f
		}
		made, err := New(tx).insertGrant(ctx, insertGrantParams{
			ClaimID: nameID, UserID: d.User, Pattern: pattern, ExpiresAt: d.Expires, Now: s.Now().UnixMilli(),
		})
		if err != nil {
			return fmt.Errorf("insert a grant: %w", err)
		}
		g = grantOf(&made)
		return s.granted(ctx, tx, &row, &made, "grant", "may order certificates for")
	})
	return g, err
}

// grantable is the user's claim, locked, when it is held and the caller is fresh.
func (s *Service) grantable(ctx context.Context, tx *sqldb.Tx, userID, nameID int64) (claimRow, error) {
	row, err := mine(ctx, tx, userID, nameID)
	if err != nil {
		return row, err
	}
	if err := s.StepUp.RequireStepUp(ctx, tx); err != nil {
		return row, err
	}
	if err := s.lock(ctx, tx, row.Name); err != nil {
		return row, err
	}
	if row, err = mine(ctx, tx, userID, nameID); err != nil {
		return row, err
	}
	if row.State != stateHeld || row.IssuanceID.Valid {
		return row, fault.Conflict("The name is not yours yet; prove it first.")
	}
	return row, nil
}

// Ungrant ends a grant: nothing new is ordered by it, and what is there renews
// for a week.
func (s *Service) Ungrant(ctx context.Context, userID, nameID, grantID int64) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := mine(ctx, tx, userID, nameID)
		if err != nil {
			return err
		}
		if err := s.lock(ctx, tx, row.Name); err != nil {
			return err
		}
		g, err := New(tx).grantByID(ctx, grantByIDParams{ID: grantID, ClaimID: nameID})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return fault.NotFound("grant")
		}
		if err != nil {
			return fmt.Errorf("read a grant: %w", err)
		}
		if g.EndedAt > 0 {
			return nil
		}
		now := s.Now()
		g.EndedAt = now.UnixMilli()
		stops := now.Add(notice).UnixMilli()
		if g.StopsAt == 0 || g.StopsAt > stops {
			g.StopsAt = stops
		}
		err = New(tx).endGrant(ctx, endGrantParams{ID: g.ID, EndedAt: g.EndedAt, StopsAt: g.StopsAt, WarnedAt: g.EndedAt})
		if err != nil {
			return fmt.Errorf("end a grant: %w", err)
		}
		if err := s.granted(ctx, tx, &row, &g, "ungrant", "may order nothing more for"); err != nil {
			return err
		}
		return s.tell(ctx, tx, g.UserID, "name-grant-ends", endingLetter(g.Pattern, time.UnixMilli(g.StopsAt)))
	})
}

// granted records a change of a grant with both users and writes to both.
func (s *Service) granted(ctx context.Context, tx *sqldb.Tx, row *claimRow, g *grantRow, action, may string) error {
	holder := row.UserID.Int64
	for _, userID := range []int64{holder, g.UserID} {
		detail := map[string]any{"pattern": g.Pattern, "holder": holder, "user": g.UserID}
		if err := s.note(ctx, tx, userID, "name."+action, row.Name, detail); err != nil {
			return err
		}
		err := s.tell(ctx, tx, userID, "name-"+action, mail.Letter{Subject: "Order rights for " + g.Pattern, Paragraphs: []string{
			fmt.Sprintf("User %d, who holds %s at this server, changed this: user %d %s %s.", holder, row.Name, g.UserID, may, g.Pattern),
			"If you did not expect it, look at the list of your names.",
		}})
		if err != nil {
			return err
		}
	}
	return s.changed(ctx, tx, row.Domain, g.UserID)
}

func endingLetter(pattern string, stop time.Time) mail.Letter {
	return mail.Letter{Subject: "Your right to order for " + pattern + " ends", Paragraphs: []string{
		fmt.Sprintf("On %s your right to order certificates for %s ends. From then on your certificates there renew no more; those that are valid stay so.",
			stop.UTC().Format("2 January 2006 15:04 UTC"), pattern),
		"To keep them, ask the user who holds the name, or prove the name yourself if the domain is yours.",
	}}
}

// sweepGrants announces the end of grants, and ends them.
func (s *Service) sweepGrants(ctx context.Context) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		now := s.Now()
		rows, err := New(tx).grantsStopping(ctx, grantsStoppingParams{Before: now.Add(notice).UnixMilli(), Now: now.UnixMilli(), Max: cleanBatch})
		if err != nil {
			return fmt.Errorf("find grants that end: %w", err)
		}
		for i := range rows {
			g := rows[i].GrantRow
			if g.StopsAt > now.UnixMilli() {
				err := New(tx).endGrant(ctx, endGrantParams{ID: g.ID, EndedAt: g.EndedAt, StopsAt: g.StopsAt, WarnedAt: now.UnixMilli()})
				if err != nil {
					return fmt.Errorf("note a warning: %w", err)
				}
				if err := s.tell(ctx, tx, g.UserID, "name-grant-ends", endingLetter(g.Pattern, time.UnixMilli(g.StopsAt))); err != nil {
					return err
				}
				continue
			}
			if err := New(tx).deleteGrant(ctx, g.ID); err != nil {
				return fmt.Errorf("delete a grant: %w", err)
			}
			row := claimRow{UserID: rows[i].Holder, Name: rows[i].Name, Domain: rows[i].Domain}
			for _, userID := range []int64{row.UserID.Int64, g.UserID} {
				if err := s.note(ctx, tx, userID, "name.grant_ended", row.Name, map[string]any{"pattern": g.Pattern, "user": g.UserID}); err != nil {
					return err
				}
			}
			if err := s.changed(ctx, tx, row.Domain, g.UserID); err != nil {
				return err
			}
		}
		return nil
	})
}
