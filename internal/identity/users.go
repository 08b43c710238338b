package identity

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// NewUser is what a user is made of.
type NewUser struct {
	Email    string
	Name     string // optional
	Password string
	Admin    bool
}

// check gives the row of the user, still without the password's hash.
func (n NewUser) check() (insertUserParams, error) {
	email, err := NormalizeEmail(n.Email)
	if err != nil {
		return insertUserParams{}, err
	}
	if n.Name != "" {
		if err := CheckUserName(n.Name); err != nil {
			return insertUserParams{}, err
		}
	}
	if err := CheckNewPassword("password", n.Password); err != nil {
		return insertUserParams{}, err
	}
	var roles []string
	if n.Admin {
		roles = append(roles, RoleAdmin)
	}
	rolesText, err := wordsText(roles)
	return insertUserParams{Email: email, Name: n.Name, Status: string(StatusActive), Roles: rolesText}, err
}

// CreateUser makes an ACTIVE user and returns the id. Errors: 5000 naming the
// member that is wrong, 5030 when the address or the name is taken.
func (s *Service) CreateUser(ctx context.Context, n NewUser) (int64, error) {
	p, err := n.check()
	if err != nil {
		return 0, err
	}
	if p.Password, err = s.passwords.hash(ctx, n.Password, nil); err != nil {
		return 0, fmt.Errorf("create user: %w", err)
	}
	var id int64
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		id, err = s.insert(ctx, tx, p)
		return err
	})
	if sqldb.Is(err, sqldb.ErrConflict) {
		return 0, s.taken(ctx, p.Email, n.Name)
	}
	if err != nil {
		return 0, fmt.Errorf("create user: %w", err)
	}
	return id, nil
}

// insert writes a checked user with tx and records it.
func (s *Service) insert(ctx context.Context, tx *sqldb.Tx, p insertUserParams) (int64, error) {
	p.CreatedAt = s.now().UnixMilli()
	p.UpdatedAt = p.CreatedAt
	id, err := New(tx).insertUser(ctx, p)
	if err != nil {
		return 0, err
	}
	return id, s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: "user.create", Object: userObject(id), Detail: map[string]any{"email": p.Email, "roles": p.Roles}})
}

// taken says which of both is taken.
func (s *Service) taken(ctx context.Context, email, name string) error {
	if _, err := New(s.db.Reader()).userIDByName(ctx, name); err == nil {
		return fault.Conflict("name: %q is taken by another user", name)
	}
	return fault.Conflict("email: %s has a user already", email)
}

// AnyIn reports whether q's database has a user at all.
func AnyIn(ctx context.Context, q sqldb.Querier) (bool, error) {
	rows, err := New(q).listUsers(ctx, listUsersParams{PageSize: 1})
	if err != nil {
		return false, fmt.Errorf("look for a user: %w", err)
	}
	return len(rows) > 0, nil
}

// AnyUser reports whether there is a user at all.
func (s *Service) AnyUser(ctx context.Context) (bool, error) {
	users, err := s.ListUsers(ctx, 0, 1)
	return len(users) > 0, err
}

// ListUsers returns at most limit users whose id is greater than after, in the
// order of their ids.
func (s *Service) ListUsers(ctx context.Context, after, limit int64) ([]User, error) {
	rows, err := New(s.db.Reader()).listUsers(ctx, listUsersParams{After: after, PageSize: limit})
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	users := make([]User, len(rows))
	for i, row := range rows {
		if users[i], err = row.user(); err != nil {
			return nil, fmt.Errorf("list users: %w", err)
		}
	}
	return users, nil
}

// FindUser finds a user by id or e-mail address, 5003 when there is none.
func (s *Service) FindUser(ctx context.Context, idOrEmail string) (User, error) {
	q := New(s.db.Reader())
	var row userRow
	id, err := strconv.ParseInt(idOrEmail, 10, 64)
	if err == nil {
		row, err = q.userByID(ctx, id)
	} else {
		row, err = q.userByEmail(ctx, strings.ToLower(strings.TrimSpace(idOrEmail)))
	}
	return found(row, err)
}

// User returns the user with the id, 5003 when there is none.
func (s *Service) User(ctx context.Context, id int64) (User, error) {
	row, err := New(s.db.Reader()).userByID(ctx, id)
	return found(row, err)
}

func found(row userRow, err error) (User, error) {
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return User{}, fault.NotFound("user")
	}
	if err != nil {
		return User{}, fmt.Errorf("find a user: %w", err)
	}
	return row.user()
}

// DisableUser is ChangeUser, also of the last administrator.
func (s *Service) DisableUser(ctx context.Context, id int64) error {
	_, err := s.ChangeUser(ctx, id, UserChange{Disabled: new(true), Force: true})
	return err
}

// EnableUser is ChangeUser. A user who is not DISABLED stays so.
func (s *Service) EnableUser(ctx context.Context, id int64) error {
	_, err := s.ChangeUser(ctx, id, UserChange{Disabled: new(false)})
	return err
}

// SetAdmin is ChangeUser, also of the last administrator.
func (s *Service) SetAdmin(ctx context.Context, id int64, admin bool) error {
	_, err := s.ChangeUser(ctx, id, UserChange{Admin: &admin, Force: true})
	return err
}

// SetPassword gives the user another password, ends all sessions and forgets
// the wrong passwords that were counted. Errors: 5000 for a password that does
// not fulfil the policy, 5003 when there is no such user.
func (s *Service) SetPassword(ctx context.Context, id int64, password string) error {
	if err := CheckNewPassword("password", password); err != nil {
		return err
	}
	hash, err := s.passwords.hash(ctx, password, nil)
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	return s.change(ctx, id, "user.set_password", func(tx *sqldb.Tx, _ User) (int64, error) {
		return New(tx).setUserPassword(ctx, setUserPasswordParams{ID: id, Password: hash, UpdatedAt: s.now().UnixMilli()})
	})
}

// change updates a user and ends all of the user's sessions.
func (s *Service) change(ctx context.Context, id int64, action string, update func(*sqldb.Tx, User) (int64, error)) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		row, err := New(tx).userByID(ctx, id)
		user, err := found(row, err)
		if err != nil {
			return err
		}
		if n, err := update(tx, user); err != nil || n == 0 {
			return err
		}
		ended, err := New(tx).deleteSessionsOfUser(ctx, id)
		if err != nil {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: action, Object: userObject(id), Detail: map[string]any{"sessions_ended": ended}})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

func userObject(id int64) string { return fmt.Sprintf("user %d", id) }
