package devices

import (
	"context"
	"database/sql"
	"fmt"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Decision is what a user decides about a device login.
type Decision struct {
	UserCode string
	Approve  bool
	DeviceID int64 // the device of the user that asks, 0: a new one, or none chosen
}

// VerifyLogin is the user's decision about a device login. Approval makes the
// registration code, bound to the user. The same decision by the same user may
// be sent again; an unknown, expired or otherwise decided code is 5000, and
// counted. A device that is chosen is the only one that the approval is good
// for, and another key of it is good at once. An approval needs a fresh proof (5034); denying needs none.
func (s *Service) VerifyLogin(ctx context.Context, userID int64, d Decision) error {
	code, err := parseUserCode(d.UserCode)
	if err != nil {
		return err
	}
	if d.Approve {
		if err := s.fresh(ctx); err != nil {
			return err
		}
	}
	// Codes are short: an address that guesses learns nothing more, right or wrong.
	spent, err := s.guess(ctx)
	if err != nil {
		return err
	}
	defer spent.Settle()
	status, action := loginDenied, "device_login.deny"
	if d.Approve {
		status, action = loginApproved, "device_login.approve"
	}
	known := false
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		q, now := New(tx), s.Now()
		login, err := q.loginByUserCode(ctx, seal.HashToken(code))
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		chosen, err := s.choose(ctx, tx, userID, d, login)
		if err != nil {
			return err
		}
		codeExpires := now.Add(codeTTL).UnixMilli()
		id, err := q.decideLogin(ctx, decideLoginParams{
			ID: login.ID, Status: status, ChosenDeviceID: chosen, UserID: valid(userID), ExpiresAt: max(login.ExpiresAt, codeExpires), Now: now.UnixMilli(),
		})
		if sqldb.Is(err, sqldb.ErrNotFound) { // expired or decided
			login, err = q.loginByUserCode(ctx, seal.HashToken(code))
			known = err == nil && login.Status == status && login.UserID == valid(userID) && login.ChosenDeviceID == chosen
			return err
		}
		if err != nil {
			return err
		}
		known = true
		if d.Approve {
			if err := s.makeCode(ctx, tx, userID, id, now.UnixMilli(), codeExpires); err != nil {
				return err
			}
		}
		return s.Audit.Record(ctx, tx, audit.Entry{UserID: userID, Action: action, Object: fmt.Sprintf("device_login %d", id), Detail: map[string]any{
			"name": login.Name, "client_ip": login.ClientIp, "device_id": d.DeviceID,
		}})
	})
	if err != nil {
		return fmt.Errorf("decide device login: %w", err)
	}
	if !known {
		return s.refuseCode(ctx, errWrongUserCode)
	}
	return s.known(ctx, spent)
}

// choose checks that the device of the decision is the user's, and the one that
// the login is for, where it says so.
func (s *Service) choose(ctx context.Context, q sqldb.Querier, userID int64, d Decision, login loginRow) (sql.NullInt64, error) {
	if !d.Approve || d.DeviceID == 0 {
		return sql.NullInt64{}, nil
	}
	device, err := s.Get(ctx, q, userID, d.DeviceID)
	if err != nil {
		return sql.NullInt64{}, err
	}
	if login.PublicID != "" && login.PublicID != device.PublicID {
		return sql.NullInt64{}, fault.Invalid("device_id", "is not the device that asks")
	}
	return valid(device.ID), nil
}

// makeCode stores a registration code: hashed to be found, sealed to be shown.
func (s *Service) makeCode(ctx context.Context, tx *sqldb.Tx, userID, loginID, now, expires int64) error {
	q, code := New(tx), seal.NewToken("rc_", 32)
	id, err := q.insertCode(ctx, insertCodeParams{UserID: userID, LoginID: loginID, CodeHash: seal.HashToken(code), CreatedAt: now, ExpiresAt: expires})
	if err != nil {
		return fmt.Errorf("store registration code: %w", err)
	}
	sealed, err := s.Keyring.Seal(codePlace(id), []byte(code))
	if err == nil {
		err = q.sealCode(ctx, sealCodeParams{CodeSealed: sealed, ID: id})
	}
	if err != nil {
		return fmt.Errorf("seal registration code: %w", err)
	}
	return nil
}
