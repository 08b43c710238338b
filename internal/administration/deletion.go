package administration

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	deleteAfter     = 7 * 24 * time.Hour  // what an administrator can still cancel
	deactivateFor   = 14 * 24 * time.Hour // how long CAs are asked to end accounts
	maxPutOff       = 24 * time.Hour
	eraseBatch      = 50 // rows of each kind in one transaction
	deletionSubject = "Your account will be deleted"
)

func userObject(id int64) string { return fmt.Sprintf("user %d", id) }

// Delete disables the user at once and has all that the user owns deleted in 7
// days. Asking again changes nothing. Errors: 5003, 5030 for the last
// administrator.
func (s *Service) Delete(ctx context.Context, id int64, reason string) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := s.Identity.KeepAdministrator(ctx, tx, id); err != nil {
			return err
		}
		if _, err := s.Identity.ChangeUserIn(ctx, tx, id, identity.UserChange{Disabled: new(true), Reason: reason}); err != nil {
			return err
		}
		now := s.Now()
		at := now.Add(deleteAfter)
		by := int64(0)
		if caller := access.From(ctx); caller != nil {
			by = caller.UserID
		}
		asked, err := changeOne(ctx, tx, insertDeletionSQL, id, now.UnixMilli(), by, at.UnixMilli())
		if err != nil || !asked {
			return err
		}
		what := fmt.Sprintf("%s on %s, with all that it has", deletionSubject, at.UTC().Format("2 January 2006 at 15:04 UTC"))
		if err := s.Identity.TellOfAdministrator(ctx, tx, id, what, reason); err != nil {
			return err
		}
		detail := map[string]any{"delete_at": at.UnixMilli(), "reason": reason}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: id, Action: "user.ask_deletion", Object: userObject(id), Detail: detail})
	})
	if err != nil {
		return fmt.Errorf("ask for a deletion: %w", err)
	}
	return nil
}

// CancelDeletion keeps the user, who stays disabled. 5030 when no deletion
// waits, or it has begun.
func (s *Service) CancelDeletion(ctx context.Context, id int64) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, err := s.Identity.LockAdministrators(ctx, tx, id); err != nil {
			return err
		}
		cancelled, err := changeOne(ctx, tx, cancelDeletionSQL, id)
		if err != nil {
			return err
		}
		if !cancelled {
			return fault.Conflict("No deletion of this user waits, or it has begun.")
		}
		if err := s.Identity.TellOfAdministrator(ctx, tx, id, "Your account will not be deleted", ""); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: id, Action: "user.cancel_deletion", Object: userObject(id)})
	})
	if err != nil {
		return fmt.Errorf("cancel a deletion: %w", err)
	}
	return nil
}

// carryOut does what is due of a deletion. A server that dies in its midst goes
// on where it was: what is gone is gone, and the rest is still the user's.
func (s *Service) carryOut(ctx context.Context, d deletion) error {
	if d.beganAt == 0 {
		began, err := s.begin(ctx, &d)
		if err != nil || !began {
			return err
		}
	}
	if err := s.Deactivate(ctx, d.userID); err != nil {
		if s.Now().UnixMilli() < d.beganAt+deactivateFor.Milliseconds() {
			return s.putOff(ctx, d, err)
		}
		s.Log.WarnContext(ctx, "a user is deleted although a CA did not end the user's account", "user_id", d.userID, "error", err)
	}
	for _, part := range s.Parts {
		for more := true; more; {
			err := s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
				more, err = part.Erase(ctx, tx, d.userID, eraseBatch)
				return err
			})
			if err != nil {
				return fmt.Errorf("erase the %s of user %d: %w", part.Name, d.userID, err)
			}
		}
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error { return s.Identity.EraseUser(ctx, tx, d.userID) })
}

// begin ends the time in which the deletion can be cancelled. A user who was
// enabled by the command since it was asked for is kept.
func (s *Service) begin(ctx context.Context, d *deletion) (began bool, err error) {
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		user, err := s.Identity.UserIn(ctx, tx, d.userID)
		if err != nil {
			return err
		}
		if user.Status != identity.StatusDisabled {
			_, err := changeOne(ctx, tx, cancelDeletionSQL, d.userID)
			return err
		}
		d.beganAt = s.Now().UnixMilli()
		if began, err = changeOne(ctx, tx, beginDeletionSQL, d.userID, d.beganAt); err != nil || !began {
			return err
		}
		if err := s.Renewals.HoldRenewals(ctx, tx, d.userID); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: d.userID, Action: "user.begin_deletion", Object: userObject(d.userID)})
	})
	return began, err
}

// putOff tries again later: in an hour, two, four, at most a day.
func (s *Service) putOff(ctx context.Context, d deletion, cause error) error {
	wait := min(maxPutOff, time.Hour<<min(d.attempts, 5))
	s.Log.WarnContext(ctx, "a CA did not end the account of a user who is deleted; it is asked again", "user_id", d.userID, "in", wait.String(), "error", cause)
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		_, err := changeOne(ctx, tx, putOffDeletionSQL, d.userID, s.Now().Add(wait).UnixMilli(), fmt.Sprintf("%.300s", cause))
		return err
	})
}

func heldLetter(id int64, email, baseURL string) mail.Letter {
	return mail.Letter{
		Subject: "Renewals of a disabled user have stopped",
		Paragraphs: []string{
			fmt.Sprintf("User %d %s at %s has been disabled for 30 days. Certificates of the user are no longer renewed and will expire.", id, email, baseURL),
			"Enable the user if they are still needed: the renewals then go on.",
		},
	}
}
