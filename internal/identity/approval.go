package identity

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// errPending refuses the sign-in of a user who waits for an administrator and
// has proved to be it. A password gets the one refusal of all.
func errPending() error {
	f := fault.Forbidden("The account waits for an administrator, who has not let it in yet.")
	f.Key = "APPROVAL_PENDING"
	return f
}

// toldAdministrators is how many administrators hear of a user who waits.
const toldAdministrators = 20

// tellPending tells the new user, and once an hour the administrators, that the
// user waits for one of them.
func (s *Service) tellPending(ctx context.Context, tx *sqldb.Tx, userID int64, email string) error {
	if email != "" {
		if err := s.post(ctx, tx, userID, "approval-pending", email, s.pendingLetter()); err != nil {
			return err
		}
	}
	told := Limit{Max: 1, Window: time.Hour}.hit(ratelimit.ApprovalLetters, "all")
	switch err := s.limiter.CountIn(ctx, tx, told); {
	case fault.Is(err, fault.CodeRateLimited):
		return nil // they have heard of another
	case err != nil:
		return err
	}
	ids, err := New(tx).administrators(ctx, toldAdministrators)
	if err != nil {
		return fmt.Errorf("look for administrators: %w", err)
	}
	for _, id := range ids {
		if err := s.Tell(ctx, tx, id, "approval-wanted", s.wantedLetter(email)); err != nil {
			return err
		}
	}
	return nil
}

// Approve lets a PENDING user in and tells the user. Errors: 5003 when there is
// no such user, 5030 when the user does not wait.
func (s *Service) Approve(ctx context.Context, id int64) error {
	return s.change(ctx, id, "user.approve", func(tx *sqldb.Tx, user User) (int64, error) {
		if user.Status != StatusPending {
			return 0, fault.Conflict("The user is %s and does not wait for an administrator.", user.Status)
		}
		n, err := New(tx).setUserStatus(ctx, setUserStatusParams{ID: id, Status: string(StatusActive), UpdatedAt: s.now().UnixMilli()})
		if err != nil || n == 0 || user.Email == "" || s.mail == nil {
			return n, err
		}
		return n, s.post(ctx, tx, id, "approved", user.Email, s.approvedLetter())
	})
}

func (s *Service) pendingLetter() mail.Letter {
	return mail.Letter{
		Subject: "Your account waits for an administrator",
		Paragraphs: []string{
			fmt.Sprintf("Your account at %s is made. An administrator has to let it in before you can sign in; you get a message then.", s.baseURL),
		},
	}
}

func (s *Service) approvedLetter() mail.Letter {
	return mail.Letter{
		Subject:    "Your account is ready",
		Paragraphs: []string{fmt.Sprintf("An administrator let your account at %s in. You can sign in now.", s.baseURL)},
	}
}

func (s *Service) wantedLetter(email string) mail.Letter {
	who := "A user without an e-mail address"
	if email != "" {
		who = email
	}
	return mail.Letter{
		Subject: "A new user waits for you",
		Paragraphs: []string{
			fmt.Sprintf("%s wants an account at %s and waits for an administrator. Of others who come within the hour you get no message.", who, s.baseURL),
			"List the users with the status PENDING and let in those whom you know: certharbor user list, certharbor user approve USER.",
		},
	}
}
