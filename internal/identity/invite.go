package identity

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

const kindInvite = "invite"

// Invite makes an INACTIVE user without a password and mails a code with which
// the person chooses one: no administrator knows or sets it. An address that a
// registration claims and nobody confirmed gives way. Errors: 5000 naming what
// is wrong, 5030 when the address or the name is taken.
func (s *Service) Invite(ctx context.Context, n NewUser) (user User, err error) {
	email, err := NormalizeEmail(n.Email)
	if err != nil {
		return User{}, err
	}
	if n.Name != "" {
		if err := CheckUserName(n.Name); err != nil {
			return User{}, err
		}
	}
	roles := "[]"
	if n.Admin {
		roles = `["admin"]`
	}
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := New(tx).deleteUnconfirmedUser(ctx, email); err != nil {
			return err
		}
		id, err := New(tx).insertInvitedUser(ctx, insertInvitedUserParams{Email: email, Name: n.Name, Roles: roles, Now: s.now().UnixMilli()})
		if err != nil {
			return err
		}
		if err := s.invite(ctx, tx, id, email, "user.create"); err != nil {
			return err
		}
		user, err = s.userIn(ctx, tx, id)
		return err
	})
	if sqldb.Is(err, sqldb.ErrConflict) {
		return User{}, s.taken(ctx, email, n.Name)
	}
	if err != nil {
		return User{}, fmt.Errorf("invite a user: %w", err)
	}
	return user, nil
}

// InviteAgain mails another code to a user who has never signed in. Errors: 5003
// when there is no such user, 5030 when the user has confirmed the address, or
// has none.
func (s *Service) InviteAgain(ctx context.Context, id int64) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		user, err := s.userIn(ctx, tx, id)
		if err != nil {
			return err
		}
		if user.Status != StatusInactive || user.Email == "" {
			return fault.Conflict("The user has an account that is in use already; who has forgotten the password asks for another one at the sign-in.")
		}
		return s.invite(ctx, tx, id, user.Email, "user.invite")
	})
	if err != nil {
		return fmt.Errorf("invite a user again: %w", err)
	}
	return nil
}

// invite leaves the code and the letter to a job.
func (s *Service) invite(ctx context.Context, tx *sqldb.Tx, id int64, email, action string) error {
	request, err := New(tx).insertAccountRequest(ctx, insertAccountRequestParams{Kind: kindInvite, Email: email, Ip: web.ClientIP(ctx), CreatedAt: s.now().UnixMilli()})
	if err != nil {
		return fmt.Errorf("note an invitation: %w", err)
	}
	if err := s.jobs.Insert(ctx, tx, accountArgs{RequestID: request}, jobs.Options{}); err != nil {
		return err
	}
	detail := map[string]any{"email": email, "invited": true}
	return s.audit.Record(ctx, tx, audit.Entry{UserID: id, Action: action, Object: userObject(id), Detail: detail})
}

func (s *Service) inviteLetter(code string) mail.Letter {
	return mail.Letter{
		Subject: "You have an account",
		Paragraphs: []string{
			fmt.Sprintf("An administrator made an account for you at %s. Choose a password there with the code below, good for 15 minutes.", s.baseURL),
			"After that ask there for another one, as if you had forgotten the password, within 7 days.",
			"If you do not expect this, ignore the message: without the code nobody uses the account. Give the code to nobody.",
		},
		Code: code,
	}
}
