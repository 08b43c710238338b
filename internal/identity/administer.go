package identity

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
)

// UserChange is what an administrator changes of a user; nil leaves it as it is.
type UserChange struct {
	Admin    *bool
	Disabled *bool
	Reason   string // is told the user and recorded, may be empty
	Force    bool   // also the last administrator, for the operator alone
}

// errLastAdmin keeps the service from being without administrators.
var errLastAdmin = fault.Conflict("This is the last administrator; make another user one first.")

// ChangeUser changes the role and the status of a user, ends all sessions when
// something has changed, and tells the user. Errors: 5003 when there is no such
// user, 5030 for the last administrator, 5022 when the caller has ceased to be
// an administrator.
func (s *Service) ChangeUser(ctx context.Context, id int64, c UserChange) (user User, err error) {
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		user, err = s.ChangeUserIn(ctx, tx, id, c)
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("change a user: %w", err)
	}
	return user, nil
}

// ChangeUserIn is ChangeUser within tx.
func (s *Service) ChangeUserIn(ctx context.Context, tx *sqldb.Tx, id int64, c UserChange) (User, error) {
	admins, err := s.LockAdministrators(ctx, tx, id)
	if err != nil {
		return User{}, err
	}
	user, err := s.userIn(ctx, tx, id)
	if err != nil {
		return User{}, err
	}
	demoted := c.Admin != nil && !*c.Admin || c.Disabled != nil && *c.Disabled
	if demoted && !c.Force && lastOf(admins, id) {
		return User{}, errLastAdmin
	}
	for _, step := range []func(context.Context, *sqldb.Tx, User, UserChange) (action, what string, err error){s.changeRole, s.changeStatus} {
		action, what, err := step(ctx, tx, user, c)
		if err != nil {
			return User{}, err
		}
		if action == "" {
			continue
		}
		if err := s.changed(ctx, tx, id, action, what, c.Reason); err != nil {
			return User{}, err
		}
	}
	return s.userIn(ctx, tx, id)
}

// UserIn is User within a transaction.
func (s *Service) UserIn(ctx context.Context, q sqldb.Querier, id int64) (User, error) {
	return s.userIn(ctx, q, id)
}

func (s *Service) userIn(ctx context.Context, q sqldb.Querier, id int64) (User, error) {
	row, err := New(q).userByID(ctx, id)
	return found(row, err)
}

func lastOf(admins []int64, id int64) bool { return len(admins) == 1 && admins[0] == id }

// LockAdministrators keeps the ACTIVE administrators as they are until tx ends,
// then the user too, and returns their ids. Whoever changes what one of them is
// waits for it, on every node: two who demote each other come one after the
// other. A caller with a session who is none any more is refused.
func (s *Service) LockAdministrators(ctx context.Context, tx *sqldb.Tx, id int64) (admins []int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT id FROM users WHERE roles <> '[]' AND roles LIKE '%"admin"%' AND status = 'ACTIVE' ORDER BY id`+tx.Dialect().ForUpdate())
	if err != nil {
		return nil, fmt.Errorf("lock the administrators: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var admin int64
		if err := rows.Scan(&admin); err != nil {
			return nil, fmt.Errorf("lock the administrators: %w", err)
		}
		admins = append(admins, admin)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("lock the administrators: %w", err)
	}
	if caller := access.From(ctx); caller != nil && caller.Kind == access.KindSession && !slices.Contains(admins, caller.UserID) {
		return nil, fault.Forbidden("This endpoint is for administrators.")
	}
	err = lockUser(ctx, tx, id)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, fault.NotFound("user")
	}
	return admins, err
}

// KeepAdministrator is asked before the user ceases to be an administrator, by
// what ends the user: 5030 for the last one.
func (s *Service) KeepAdministrator(ctx context.Context, tx *sqldb.Tx, id int64) error {
	admins, err := s.LockAdministrators(ctx, tx, id)
	if err == nil && lastOf(admins, id) {
		err = errLastAdmin
	}
	return err
}

func (s *Service) changeRole(ctx context.Context, tx *sqldb.Tx, user User, c UserChange) (action, what string, err error) {
	if c.Admin == nil || slices.Contains(user.Roles, RoleAdmin) == *c.Admin {
		return "", "", nil
	}
	roles := slices.DeleteFunc(slices.Clone(user.Roles), func(role string) bool { return role == RoleAdmin })
	action, what = "user.unset_admin", "You are no longer an administrator"
	if *c.Admin {
		roles = append(roles, RoleAdmin)
		action, what = "user.set_admin", "You are an administrator from now on"
	}
	text, err := wordsText(roles)
	if err != nil {
		return "", "", err
	}
	_, err = New(tx).setUserRoles(ctx, setUserRolesParams{ID: user.ID, Roles: text, UpdatedAt: s.now().UnixMilli()})
	return action, what, err
}

func (s *Service) changeStatus(ctx context.Context, tx *sqldb.Tx, user User, c UserChange) (action, what string, err error) {
	if c.Disabled == nil || (user.Status == StatusDisabled) == *c.Disabled {
		return "", "", nil
	}
	now := s.now().UnixMilli()
	p := setUserStatusParams{ID: user.ID, Status: string(StatusActive), UpdatedAt: now}
	action, what = "user.enable", "Your account is enabled again"
	if *c.Disabled {
		p.Status, p.DisabledAt = string(StatusDisabled), now
		action, what = "user.disable", "Your account was disabled"
	}
	_, err = New(tx).setUserStatus(ctx, p)
	return action, what, err
}

// changed ends the user's sessions after a change, records it and tells the
// user.
func (s *Service) changed(ctx context.Context, tx *sqldb.Tx, id int64, action, what, reason string) error {
	ended, err := New(tx).deleteSessionsOfUser(ctx, id)
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	detail := map[string]any{"sessions_ended": ended}
	if reason != "" {
		detail["reason"] = reason
	}
	if err := s.TellOfAdministrator(ctx, tx, id, what, reason); err != nil {
		return err
	}
	return s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: action, Object: userObject(id), Detail: detail})
}

// TellOfAdministrator tells the user what an administrator did; what is a
// sentence without its end. Commands, which have no mail, tell nobody.
func (s *Service) TellOfAdministrator(ctx context.Context, tx *sqldb.Tx, id int64, what, reason string) error {
	if s.mail == nil {
		return nil
	}
	letter := mail.Letter{Subject: what, Paragraphs: []string{fmt.Sprintf("%s: an administrator of %s did this.", what, s.baseURL)}}
	if reason != "" {
		letter.Paragraphs = append(letter.Paragraphs, "The reason given: "+reason)
	}
	letter.Paragraphs = append(letter.Paragraphs, "The audit log of your account has it, with the time and the administrator. If you did not expect it, ask them.")
	return s.Tell(ctx, tx, id, "administrator", letter)
}

// TellAdministrators sends the ACTIVE administrators, at most 20, the letter.
func (s *Service) TellAdministrators(ctx context.Context, tx *sqldb.Tx, letter mail.Letter) error {
	ids, err := New(tx).administrators(ctx, toldAdministrators)
	if err != nil {
		return fmt.Errorf("look for administrators: %w", err)
	}
	for _, id := range ids {
		if err := s.Tell(ctx, tx, id, "administrators", letter); err != nil {
			return err
		}
	}
	return nil
}

// SignOutUser ends every session of the user and tells. 5003 when there is no
// such user.
func (s *Service) SignOutUser(ctx context.Context, id int64, reason string) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := s.LockAdministrators(ctx, tx, id); err != nil {
			return err
		}
		return s.changed(ctx, tx, id, "user.sign_out", "You were signed out everywhere", reason)
	})
	if err != nil {
		return fmt.Errorf("sign a user out: %w", err)
	}
	return nil
}
