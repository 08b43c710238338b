package identity

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
)

// accountArgs name a request that is handled in the background.
type accountArgs struct {
	RequestID int64 `json:"request_id"`
}

// Kind implements jobs.Args.
func (accountArgs) Kind() string { return "identity.account" }

// handleRequest does what a request asks for, once: its row goes with the
// effects.
func (s *Service) handleRequest(ctx context.Context, id int64) error {
	// The first code of all makes the key in a transaction of its own, which on
	// SQLite cannot begin within another.
	if _, err := s.codeKeys.get(ctx, s.now().UnixMilli()); err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		r, err := New(tx).takeAccountRequest(ctx, id)
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return nil // done by an earlier run
		}
		if err != nil {
			return fmt.Errorf("take an account request: %w", err)
		}
		if r.Kind == kindRegister {
			return s.register(ctx, tx, r)
		}
		return s.sendReset(ctx, tx, r)
	})
}

// register makes the INACTIVE user, or finds the one there is. Every
// registration of an address that is not confirmed has its own code, which
// brings its own password into force: otherwise somebody else's registration
// could slip a password under the owner's code.
func (s *Service) register(ctx context.Context, tx *sqldb.Tx, r takeAccountRequestRow) error {
	if s.registration == RegistrationClosed {
		return nil // since
	}
	now := s.now().UnixMilli()
	inserted, err := New(tx).insertUnconfirmedUser(ctx, insertUnconfirmedUserParams{
		Email: r.Email, CountryOfResidence: r.CountryOfResidence, Password: r.Password, Now: now,
	})
	if err != nil {
		return fmt.Errorf("insert a user: %w", err)
	}
	user, err := New(tx).userByEmail(ctx, r.Email)
	if err != nil {
		return fmt.Errorf("read a user: %w", err)
	}
	unconfirmed := Status(user.Status) == StatusInactive
	if unconfirmed && inserted == 0 {
		_, err = New(tx).renewUnconfirmedUser(ctx, renewUnconfirmedUserParams{
			CountryOfResidence: r.CountryOfResidence, Password: r.Password, UpdatedAt: now, ID: user.ID,
		})
		if err != nil {
			return fmt.Errorf("renew a registration: %w", err)
		}
	}
	if !unconfirmed {
		r.Name, r.CountryOfResidence, r.Password = "", "", "" // a code that nobody is told
	}
	code, err := s.storeCode(ctx, tx, purposeActivate, r)
	if err != nil {
		return err
	}
	kind, letter := "activation-code", s.activationLetter(code, r.Ip)
	if !unconfirmed {
		kind, letter = "already-registered", s.takenLetter(r.Ip)
	}
	if err := s.post(ctx, tx, user.ID, kind, r.Email, letter); err != nil {
		return err
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: user.ID, Action: "user.register", Object: userObject(user.ID),
		Detail: map[string]any{"email": r.Email, "ip": r.Ip, "taken": !unconfirmed},
	})
}

// sendReset sends a code, in place of an earlier one that was asked for from the
// same place, to a user who may use it.
// For any other address a code is kept that nobody is told.
func (s *Service) sendReset(ctx context.Context, tx *sqldb.Tx, r takeAccountRequestRow) error {
	earlier := deleteCodesAskedFromParams{Email: r.Email, Purpose: purposeReset, AskedFrom: ratelimit.AddressKey(r.Ip)}
	if _, err := New(tx).deleteCodesAskedFrom(ctx, earlier); err != nil {
		return fmt.Errorf("drop earlier codes: %w", err)
	}
	code, err := s.storeCode(ctx, tx, purposeReset, r)
	if err != nil {
		return err
	}
	user, err := New(tx).userByEmail(ctx, r.Email)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a user: %w", err)
	}
	if r.Kind == kindInvite {
		return s.post(ctx, tx, user.ID, "invitation", r.Email, s.inviteLetter(code))
	}
	if s.statusAfterReset(Status(user.Status), user.InvitedAt > 0) == "" {
		return nil
	}
	if err := s.post(ctx, tx, user.ID, "reset-code", r.Email, s.resetLetter(code, r.Ip)); err != nil {
		return err
	}
	return s.audit.Record(ctx, tx, audit.Entry{
		UserID: user.ID, Action: "user.request_reset", Object: userObject(user.ID), Detail: map[string]any{"ip": r.Ip},
	})
}

// post sends a letter while it is worth it: a code as long as it lives, anything
// else for a day.
func (s *Service) post(ctx context.Context, tx *sqldb.Tx, userID int64, kind, to string, letter mail.Letter) error {
	ttl := 24 * time.Hour
	if letter.Code != "" {
		ttl = codeLifetime
	}
	return s.mail.Enqueue(ctx, tx, mail.Message{UserID: userID, Kind: kind, To: to, Letter: letter, TTL: ttl})
}
