package identity

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Activate confirms an e-mail address with the code that was sent to it and
// returns the address as it is kept. The registration that the code belongs to
// comes into force; a user name that was taken meanwhile is left out. Where an
// administrator lets users in, the user waits for that. Errors: 5000 with one
// message for every refusal, 5013, 5022 while registration is closed.
func (s *Service) Activate(ctx context.Context, email, code string) (string, error) {
	if err := s.registration.admits(); err != nil {
		return "", err
	}
	email, err := NormalizeEmail(email)
	if err != nil {
		return "", err
	}
	if err := checkCode(code); err != nil {
		return "", err
	}
	err = s.tryCode(ctx, purposeActivate, email, code, func(tx *sqldb.Tx, registration tryCodesHereRow) error {
		return s.activate(ctx, tx, email, registration)
	})
	if sqldb.Is(err, sqldb.ErrConflict) {
		return "", fault.Conflict("name: it was taken at this very moment; send the code again")
	}
	return email, err
}

func (s *Service) activate(ctx context.Context, tx *sqldb.Tx, email string, r tryCodesHereRow) error {
	user, err := s.lockByEmail(ctx, tx, email)
	if err != nil {
		return err
	}
	if user.Status != StatusInactive {
		return errCode
	}
	if r.Name != "" {
		if _, err := New(tx).userIDByName(ctx, r.Name); err == nil {
			r.Name = ""
		} else if !sqldb.Is(err, sqldb.ErrNotFound) {
			return fmt.Errorf("look up a user name: %w", err)
		}
	}
	_, err = New(tx).activateUser(ctx, activateUserParams{
		Status: string(s.registration.status()), Name: r.Name, CountryOfResidence: r.CountryOfResidence, Password: r.Password, UpdatedAt: s.now().UnixMilli(), ID: user.ID,
	})
	if err != nil {
		return fmt.Errorf("activate a user: %w", err)
	}
	if _, err := New(tx).deleteCodesOf(ctx, deleteCodesOfParams{Email: email, Purpose: purposeActivate}); err != nil {
		return fmt.Errorf("drop codes: %w", err)
	}
	if s.registration.status() == StatusPending {
		if err := s.tellPending(ctx, tx, user.ID, email); err != nil {
			return err
		}
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: user.ID, Action: "user.activate", Object: userObject(user.ID),
		Detail: map[string]any{"email": email, "ip": web.ClientIP(ctx), "status": s.registration.status()},
	})
}

// ResetPassword gives the account with the address a new password, for the code
// that was sent to it, ends all of its sessions, forgets the wrong passwords
// that were counted, and returns the address as it is kept and the cookie that
// makes the browser known to the account. The code proves the
// address, so it stands for the activation of an INACTIVE user as well. Errors:
// 5000 with one message for every refusal of the code, 5013.
func (s *Service) ResetPassword(ctx context.Context, email, code, password string) (string, []*http.Cookie, error) {
	email, err := NormalizeEmail(email)
	if err != nil {
		return "", nil, err
	}
	if err := checkCode(code); err != nil {
		return "", nil, err
	}
	if err := CheckNewPassword("new_password", password); err != nil {
		return "", nil, err
	}
	var used tryCodesHereRow
	err = s.tryCode(ctx, purposeReset, email, code, func(_ *sqldb.Tx, row tryCodesHereRow) error {
		used = row
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	// Only who knows the code makes us hash. It is used up afterwards, by one.
	hash, err := s.passwords.hash(ctx, password, nil)
	if err != nil {
		return "", nil, err
	}
	var known []*http.Cookie
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		n, err := New(tx).deleteCode(ctx, used.ID)
		if err != nil {
			return fmt.Errorf("use a code: %w", err)
		}
		if n == 0 {
			return errCode
		}
		userID, err := s.reset(ctx, tx, email, hash)
		known = s.remember(ctx, userID, hash)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return email, known, nil
}

func (s *Service) reset(ctx context.Context, tx *sqldb.Tx, email, hash string) (int64, error) {
	user, err := s.lockByEmail(ctx, tx, email)
	if err != nil {
		return 0, err
	}
	status := s.statusAfterReset(user.Status, user.invited)
	if status == "" {
		return 0, errCode
	}
	_, err = New(tx).activateUser(ctx, activateUserParams{
		Status: string(status), Name: user.Name, CountryOfResidence: user.CountryOfResidence, Password: hash, UpdatedAt: s.now().UnixMilli(), ID: user.ID,
	})
	if err != nil {
		return 0, fmt.Errorf("set a password: %w", err)
	}
	if _, err := New(tx).deleteCodesOf(ctx, deleteCodesOfParams{Email: email, Purpose: purposeReset}); err != nil {
		return 0, fmt.Errorf("drop the other codes: %w", err)
	}
	ended, err := New(tx).deleteSessionsOfUser(ctx, user.ID)
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	if err := s.post(ctx, tx, user.ID, "password-changed", email, s.passwordLetter(web.ClientIP(ctx))); err != nil {
		return 0, err
	}
	return user.ID, s.audit.Record(ctx, tx, audit.Entry{
		UserID: user.ID, Action: "user.reset_password", Object: userObject(user.ID), Detail: map[string]any{"sessions_ended": ended, "ip": web.ClientIP(ctx)},
	})
}

// statusAfterReset is what a user becomes who has proved the address with a code
// for a new password, "" for who must not have one. It admits nobody whom the
// code of a registration would not, but for those whom an administrator invited.
func (s *Service) statusAfterReset(status Status, invited bool) Status {
	switch {
	case status == StatusInactive && invited:
		return StatusActive
	case status == StatusDisabled, status == StatusInactive && s.registration == RegistrationClosed:
		return ""
	case status == StatusInactive:
		return s.registration.status()
	}
	return status
}

// lockByEmail reads the user with the address and keeps it so until tx ends.
// The code of an address without a user is refused like a wrong one.
func (s *Service) lockByEmail(ctx context.Context, tx *sqldb.Tx, email string) (User, error) {
	row, err := New(tx).userByEmail(ctx, email)
	if err == nil {
		if err = lockUser(ctx, tx, row.ID); err == nil {
			row, err = New(tx).userByID(ctx, row.ID)
		}
	}
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return User{}, errCode
	}
	if err != nil {
		return User{}, fmt.Errorf("lock a user: %w", err)
	}
	return row.user()
}
