package identity

import (
	"context"
	"fmt"
	"net/http"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// errSignIn is the one refusal, whatever is wrong (decisions.md section 7.3).
var errSignIn = fault.Unauthorized("The e-mail address or the password is wrong, or the account cannot sign in.")

// SignedIn is the outcome of a sign-in.
type SignedIn struct {
	User    User
	Cookies []*http.Cookie // of the new session, then others
}

// Login signs a user in with a password and replaces the session that the
// browser had. Errors: 5018 with one message for every refusal, 5013 when too
// many wrong passwords were tried for the account or from the address, 5014
// when too many wait for hashing, 5000 for what is not an address.
func (s *Service) Login(ctx context.Context, email, password string) (*SignedIn, error) {
	email, err := NormalizeEmail(email)
	if err != nil {
		return nil, err
	}
	if password == "" {
		return nil, fault.Invalid("password", "is required")
	}
	if len(password) > maxPassword {
		return nil, fault.Invalid("password", "must be at most %d bytes", maxPassword)
	}
	row, err := New(s.db.Reader()).userByEmail(ctx, email)
	known := err == nil
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, fmt.Errorf("look up a user: %w", err)
	}
	matches, spent, err := s.look(ctx, email, password, row)
	if err != nil {
		return nil, err
	}
	defer spent.Settle()
	if !known || !matches || Status(row.Status) != StatusActive {
		return nil, s.refuse(ctx, row.ID, email)
	}
	return s.admit(ctx, spent, row)
}

// admit makes the session in one transaction with everything it depends on.
func (s *Service) admit(ctx context.Context, spent *ratelimit.Spent, row userRow) (*SignedIn, error) {
	in := &SignedIn{}
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		_, password, err := s.lockActive(ctx, tx, row.ID)
		if err != nil {
			return err
		}
		if password != row.Password {
			return errSignIn // changed while the password was being hashed
		}
		if in.Cookies, in.User, err = s.SignIn(ctx, tx, row.ID, passwordMethod()); err != nil {
			return err
		}
		return spent.GiveBack(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// refuse records a wrong password and returns the refusal. It does the same work
// whether the account exists (userID) or not (0).
func (s *Service) refuse(ctx context.Context, userID int64, email string) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		return s.audit.Record(ctx, tx, audit.Entry{
			UserID: userID, Action: "session.sign_in_refused", Object: fmt.Sprintf("user %d", userID),
			Detail: map[string]any{"email": email, "ip": web.ClientIP(ctx)},
		})
	})
	if err != nil {
		return err
	}
	return errSignIn
}
