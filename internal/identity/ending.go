package identity

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// endingBatch is how many users a sweep looks at.
const endingBatch = 100

// DisabledSince lists users who were disabled before a time and whose renewals
// are not held yet, the earliest first, at most 100.
func (s *Service) DisabledSince(ctx context.Context, before time.Time) ([]int64, error) {
	ids, err := New(s.db.Reader()).disabledUsers(ctx, disabledUsersParams{Before: before.UnixMilli(), PageSize: endingBatch})
	if err != nil {
		return nil, fmt.Errorf("list disabled users: %w", err)
	}
	return ids, nil
}

// EnabledAndHeld lists users who are enabled again and whose renewals are still
// held, at most 100.
func (s *Service) EnabledAndHeld(ctx context.Context) ([]int64, error) {
	ids, err := New(s.db.Reader()).enabledUsersHeld(ctx, enabledUsersHeldParams{PageSize: endingBatch})
	if err != nil {
		return nil, fmt.Errorf("list enabled users: %w", err)
	}
	return ids, nil
}

// HoldRenewals notes with tx that the renewals of a user are held, or go on,
// and reports whether that is news. The user is locked until tx ends; one who
// was enabled, or disabled, at this very moment is left to the next sweep.
func (s *Service) HoldRenewals(ctx context.Context, tx *sqldb.Tx, id int64, held bool) (bool, error) {
	if err := lockUser(ctx, tx, id); err != nil {
		return false, fmt.Errorf("lock a user: %w", err)
	}
	user, err := s.userIn(ctx, tx, id)
	if err != nil || (user.Status == StatusDisabled) != held {
		return false, err
	}
	at, action := int64(0), "user.resume_renewals"
	if held {
		at, action = s.now().UnixMilli(), "user.hold_renewals"
	}
	n, err := New(tx).setRenewalsHeld(ctx, setRenewalsHeldParams{ID: id, HeldAt: at})
	if err != nil || n == 0 {
		return false, err
	}
	return true, s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: action, Object: userObject(id)})
}

const (
	eraseSessionsSQL = `DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE user_id = $1 ORDER BY id LIMIT $2)`
	eraseCodesSQL    = `DELETE FROM account_codes WHERE email = $1`
	eraseUserSQL     = `DELETE FROM users WHERE id = $1`
)

// EraseOwned deletes sessions of a user who is being deleted.
func (s *Service) EraseOwned(ctx context.Context, tx *sqldb.Tx, userID, limit int64) (more bool, err error) {
	return sqldb.EraseOwned(ctx, tx, userID, limit, eraseSessionsSQL)
}

// EraseUser deletes the user, whose log stays.
func (s *Service) EraseUser(ctx context.Context, tx *sqldb.Tx, id int64) error {
	user, err := s.userIn(ctx, tx, id)
	if err != nil {
		return err
	}
	if user.Email != "" {
		if _, err := tx.ExecContext(ctx, eraseCodesSQL, user.Email); err != nil {
			return fmt.Errorf("erase codes: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, eraseUserSQL, id); err != nil {
		return fmt.Errorf("erase a user: %w", err)
	}
	return s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: "user.delete", Object: userObject(id), Detail: map[string]any{"email": user.Email}})
}
