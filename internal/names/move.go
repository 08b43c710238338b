package names

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/sqldb"
)

// move makes the name the user's, under the lock of its domain. rivals lose
// what is at the name or below, unless they are barred from it.
func (s *Service) move(ctx context.Context, tx *sqldb.Tx, userID int64, name, proof string, rivals []claimRow, barred map[int64]bool) error {
	now := s.Now().UnixMilli()
	from := int64(0)
	who := []int64{userID}
	for i := range rivals {
		rival := &rivals[i]
		if covers(rival.Name, name) {
			from = rival.UserID.Int64
		}
		who = append(who, rival.UserID.Int64)
		if barred[rival.ID] || !within(rival.Name, name) {
			continue
		}
		lost, err := s.lose(ctx, tx, rival)
		if err != nil {
			return err
		}
		who = append(who, lost...)
	}
	row, err := own(ctx, tx, userID, name)
	if err != nil {
		return err
	}
	if row == nil {
		if err := s.insert(ctx, tx, userID, name, statePending, "", 0); err != nil {
			return err
		}
		if row, err = own(ctx, tx, userID, name); err != nil {
			return err
		}
	}
	before := row.State
	row.State, row.Proof, row.IssuanceID, row.CheckedAt = stateHeld, proof, sql.NullInt64{}, now
	row.LostAt, row.AbsentSince, row.LapsedAt, row.FreedAt, row.NextCheckAt = 0, 0, 0, 0, 0
	if proof == proofTXT {
		row.NextCheckAt = now + recheck.Milliseconds()
	}
	if before != stateHeld {
		row.HeldAt, row.TakenFrom = now, from
	}
	if err := save(ctx, tx, row); err != nil {
		return err
	}
	if err := s.tellMoved(ctx, tx, userID, name, proof, from, rivals, barred); err != nil {
		return err
	}
	return s.changed(ctx, tx, row.Domain, who...)
}

// lose takes a claim from its holder, who keeps it as a name to prove. others
// are those who had grants.
func (s *Service) lose(ctx context.Context, tx *sqldb.Tx, row *claimRow) (others []int64, err error) {
	if others, err = s.affected(ctx, tx, row); err != nil {
		return nil, err
	}
	if !row.UserID.Valid {
		_, err := New(tx).deleteClaim(ctx, row.ID)
		return others, err
	}
	if err := New(tx).dropGrants(ctx, row.ID); err != nil {
		return nil, fmt.Errorf("drop the grants on %s: %w", row.Name, err)
	}
	row.State, row.Proof, row.IssuanceID, row.NextCheckAt = statePending, "", sql.NullInt64{}, 0
	row.LostAt, row.AbsentSince, row.LapsedAt = s.Now().UnixMilli(), 0, 0
	return others, save(ctx, tx, row)
}

// tellMoved records a claim, or a take-over, with both users and writes to the
// one who lost something.
func (s *Service) tellMoved(ctx context.Context, tx *sqldb.Tx, userID int64, name, proof string, from int64, rivals []claimRow, barred map[int64]bool) error {
	action, detail := "name.claim", map[string]any{"proof": proof}
	if from != 0 {
		action, detail["from"] = "name.take_over", from
	}
	if err := s.note(ctx, tx, userID, action, name, detail); err != nil {
		return err
	}
	told := map[int64]bool{}
	for _, rival := range rivals {
		former := rival.UserID.Int64
		if barred[rival.ID] || former == 0 || told[former] {
			continue
		}
		told[former] = true
		if err := s.note(ctx, tx, former, "name.lost", name, map[string]any{"proof": proof}); err != nil {
			return err
		}
		if err := s.tell(ctx, tx, former, "name-lost", lostLetter(name, proof)); err != nil {
			return err
		}
	}
	return nil
}

// changed withdraws answers that are published for users who may not have the
// names any more, and has the renewals of the users judged again.
func (s *Service) changed(ctx context.Context, tx *sqldb.Tx, domain string, users ...int64) error {
	if s.Attempts != nil {
		if err := s.Attempts.Withdraw(ctx, tx, domain); err != nil {
			return err
		}
	}
	if s.jobs == nil {
		return nil
	}
	slices.Sort(users)
	for _, userID := range slices.Compact(users) {
		if userID == 0 {
			continue
		}
		if err := s.enqueue(ctx, tx, judgeArgs{UserID: userID, Domain: domain}); err != nil {
			return err
		}
	}
	return nil
}
