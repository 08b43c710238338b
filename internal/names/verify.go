package names

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/authdns"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// checksAnHour are the look-ups that a user may ask for.
	checksAnHour = 60
	// checksAtOnce of this process, and of one user.
	checksAtOnce, checksOfUser = 16, 2
	// recheck is how often the record of a claim is looked for again.
	recheck        = 24 * time.Hour
	recheckUnknown = time.Hour
	recheckAbsent  = 12 * time.Hour
	// maxRivals whose records are looked for in one take-over.
	maxRivals = 20
)

// Verify looks for the record of a name and makes the name the user's when all
// name servers show it, away from another user whose own record does not stand.
// Reason says why it is not.
func (s *Service) Verify(ctx context.Context, userID, id int64) (Claim, error) {
	row, err := mine(ctx, s.DB.Reader(), userID, id)
	if err != nil {
		return Claim{}, err
	}
	if s.rules.reserved.Has(row.Name) {
		return Claim{}, reserved(row.Name)
	}
	if !listed(row.Name) {
		return Claim{}, unproved(row.Name, TXTRecord{})
	}
	leave, err := s.enter(ctx, userID)
	if err != nil {
		return Claim{}, err
	}
	defer leave()
	r := s.record(userID, row.Name)
	finding, err := s.Records.Proof(ctx, r.Name, r.Value)
	if unknown, ok := errors.AsType[*authdns.ErrUnknown](err); ok {
		s.Log.InfoContext(ctx, "a record could not be looked up", "name", row.Name, "error", unknown)
		c := s.shown(&row)
		c.Reason = unknown.What
		return c, nil
	}
	if err != nil {
		return Claim{}, fmt.Errorf("look for the record of %s: %w", row.Name, err)
	}
	if !finding.Stands {
		c := s.shown(&row)
		c.Reason = finding.Why
		return c, nil
	}
	if err := s.take(ctx, userID, row.Name); err != nil {
		return Claim{}, err
	}
	return s.Get(ctx, userID, id)
}

// enter counts a look-up that a user asks for, and takes a place for it.
func (s *Service) enter(ctx context.Context, userID int64) (leave func(), err error) {
	s.mu.Lock()
	full := s.busy >= checksAtOnce || s.busyFor[userID] >= checksOfUser
	if !full {
		s.busy++
		s.busyFor[userID]++
	}
	s.mu.Unlock()
	if full {
		return nil, fault.RateLimited(2*time.Second, "Other look-ups are under way; try again in a moment.")
	}
	leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		if s.busyFor[userID]--; s.busyFor[userID] == 0 {
			delete(s.busyFor, userID)
		}
	}
	hit := ratelimit.Hit{Rule: ratelimit.NameChecksOfUser, Key: strconv.FormatInt(userID, 10), Max: checksAnHour, Window: time.Hour}
	if err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error { return s.Limiter.CountIn(ctx, tx, hit) }); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// take makes a name the user's whose record was found.
func (s *Service) take(ctx context.Context, userID int64, name string) error {
	for range 3 {
		before, err := s.rivals(ctx, s.DB.Reader(), userID, name)
		if err != nil {
			return err
		}
		barred, err := s.barred(ctx, name, before)
		if err != nil {
			return err
		}
		again := false
		err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			if err := s.lock(ctx, tx, name); err != nil {
				return err
			}
			now, err := s.rivals(ctx, tx, userID, name)
			if err != nil {
				return err
			}
			if again = !slices.EqualFunc(before, now, func(a, b claimRow) bool { return a.ID == b.ID && a.UserID == b.UserID }); again {
				return nil
			}
			return s.move(ctx, tx, userID, name, proofTXT, now, barred)
		})
		if err != nil || !again {
			return err
		}
	}
	return fault.Conflict("The name changes hands at this moment; try again.")
}

// rivals are the claims of others that the name would be taken from: the
// nearest at or above it, and those below.
func (s *Service) rivals(ctx context.Context, q sqldb.Querier, userID int64, name string) ([]claimRow, error) {
	domain, _ := Domain(name)
	rows, err := New(q).claimsIn(ctx, claimsInParams{Domain: domain, UserID: nullable(userID), Max: manyClaims})
	if err != nil {
		return nil, fmt.Errorf("read the claims on a domain: %w", err)
	}
	var list []claimRow
	steps := path(name)
	nearest := len(steps)
	for _, row := range rows {
		if at := slices.Index(steps, row.Name); row.State == stateHeld && at >= 0 && at < nearest {
			nearest = at
		}
	}
	for _, row := range rows {
		other := row.State == stateHeld && row.UserID.Int64 != userID
		if other && (within(row.Name, name) || nearest < len(steps) && row.Name == steps[nearest]) {
			list = append(list, row)
		}
	}
	if len(rows) >= manyClaims || len(list) > maxRivals {
		return nil, fault.Conflict("Many users hold names there; ask an administrator.")
	}
	return list, nil
}

// barred lists the claims that stay where they are, since their holder's record
// stands. One that decides about the name itself is a fault, and so is a record
// that cannot be looked up.
func (s *Service) barred(ctx context.Context, name string, rivals []claimRow) (map[int64]bool, error) {
	stay := map[int64]bool{}
	for _, rival := range rivals {
		decides := covers(rival.Name, name)
		steps := []string{rival.Name}
		if decides { // at the name, or between it and the claim
			steps = path(name)
			steps = steps[:slices.Index(steps, rival.Name)+1]
		}
		for _, at := range steps {
			r := s.record(rival.UserID.Int64, at)
			finding, err := s.Records.Proof(ctx, r.Name, r.Value)
			if err != nil {
				return nil, fault.Unavailable(time.Minute, "Another user holds the name, whose record could not be looked up just now.", err)
			}
			stay[rival.ID] = stay[rival.ID] || finding.Stands
		}
		if decides && stay[rival.ID] {
			return nil, refusal(KeyTaken, name, "%s belongs to another user, whose record %s stands. Remove it, or ask an administrator.", name, recordLabel+rival.Name)
		}
	}
	return stay, nil
}
