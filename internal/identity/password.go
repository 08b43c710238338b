package identity

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// errPassword refuses a step-up. The caller is known, so it may be plain.
var errPassword = fault.Unauthorized("The password is wrong.")

// StepUpWithPassword checks the caller's password again and returns the cookie
// of the session's new id: for 15 minutes it is fresh enough for what
// RequireStepUp guards. Errors: 5018 when it is wrong, counted like a wrong
// password of a sign-in (5013), 5034 when the user has a passkey, which alone
// will do, 5030 when the user has no password.
func (s *Service) StepUpWithPassword(ctx context.Context, password string) (*http.Cookie, error) {
	caller := access.From(ctx)
	if password == "" || len(password) > maxPassword {
		return nil, fault.Invalid("password", "must be 1 to %d bytes", maxPassword)
	}
	row, err := New(s.db.Reader()).userByID(ctx, caller.UserID)
	if err != nil {
		return nil, fmt.Errorf("read the caller: %w", err)
	}
	if row.Password == "" {
		return nil, fault.Conflict("This account has no password; sign in again instead.")
	}
	passkey, err := s.factors.HasPasskey(ctx, s.db.Reader(), caller.UserID)
	if err != nil {
		return nil, err
	}
	if passkey {
		return nil, errNeedsPasskey()
	}
	matches, spent, err := s.look(ctx, row.Email, password, row)
	if err != nil {
		return nil, err
	}
	defer spent.Settle()
	if !matches {
		return nil, s.refuseStepUp(ctx, caller)
	}
	var cookie *http.Cookie
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if _, stored, err := s.lockActive(ctx, tx, caller.UserID); err != nil || stored != row.Password {
			return errSession // ended or changed while the password was being hashed
		}
		if cookie, err = s.StepUp(ctx, tx, caller, passwordMethod()); err != nil {
			return err
		}
		return spent.GiveBack(ctx, tx)
	})
	return cookie, err
}

func (s *Service) refuseStepUp(ctx context.Context, caller *access.Caller) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: caller.UserID, Action: "session.step_up_refused", Object: sessionObject(caller.SessionID), Detail: map[string]any{"ip": web.ClientIP(ctx)},
		})
	})
	if err != nil {
		return err
	}
	return errPassword
}

// ChangePassword gives the caller a new password, ends the other sessions and
// returns the cookies of this one's new id and of the browser, which stays known.
// The user is told by mail. Errors:
// 5000 for a password that does not fulfil the policy, 5034 without a fresh
// proof, 5030 for an account without an e-mail address, which no password could
// sign in to.
func (s *Service) ChangePassword(ctx context.Context, password string) ([]*http.Cookie, error) {
	caller := access.From(ctx)
	if err := CheckNewPassword("new_password", password); err != nil {
		return nil, err
	}
	if err := s.RequireStepUp(ctx, s.db.Reader()); err != nil {
		return nil, err
	}
	hash, err := s.passwords.hash(ctx, password, nil)
	if err != nil {
		return nil, err
	}
	var cookie *http.Cookie
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		user, _, err := s.lockActive(ctx, tx, caller.UserID)
		if err != nil {
			return errSession
		}
		if user.Email == "" {
			return fault.Conflict("This account has no e-mail address, with which a password could be used.")
		}
		if cookie, err = s.rotate(ctx, tx, caller); err != nil {
			return err
		}
		if _, err := New(tx).setUserPassword(ctx, setUserPasswordParams{ID: user.ID, Password: hash, UpdatedAt: s.now().UnixMilli()}); err != nil {
			return fmt.Errorf("set a password: %w", err)
		}
		ended, err := New(tx).deleteOtherSessions(ctx, deleteOtherSessionsParams{UserID: user.ID, ID: caller.SessionID})
		if err != nil {
			return fmt.Errorf("end the other sessions: %w", err)
		}
		if err := s.post(ctx, tx, user.ID, "password-changed", user.Email, s.passwordLetter(web.ClientIP(ctx))); err != nil {
			return err
		}
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: user.ID, Action: "user.change_password", Object: userObject(user.ID), Detail: map[string]any{"sessions_ended": ended, "ip": web.ClientIP(ctx)},
		})
	})
	return append([]*http.Cookie{cookie}, s.remember(ctx, caller.UserID, hash)...), err
}
