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
	User   User
	Cookie *http.Cookie // carries the new session
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
	guess := s.guess(ctx, email)
	check := func() error { return guess.check(ctx, s.db.Reader()) }
	if err := check(); err != nil {
		return nil, err
	}
	row, err := New(s.db.Reader()).userByEmail(ctx, email)
	known := err == nil
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, fmt.Errorf("look up a user: %w", err)
	}
	matches, err := s.passwords.matches(ctx, password, row.Password, check)
	if err != nil {
		return nil, err
	}
	if !known || !matches || Status(row.Status) != StatusActive {
		return nil, s.refuse(ctx, guess, row.ID, email)
	}
	return s.admit(ctx, guess, row)
}

// admit makes the session in one transaction with everything it depends on.
func (s *Service) admit(ctx context.Context, guess guess, row userRow) (*SignedIn, error) {
	in := &SignedIn{}
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		_, password, err := s.lockActive(ctx, tx, row.ID)
		if err != nil {
			return err
		}
		if password != row.Password {
			return errSignIn // changed while the password was being hashed
		}
		// Again: attempts in parallel may have used up the limit, and then this
		// answer must tell no more than theirs.
		if err := guess.check(ctx, tx); err != nil {
			return err
		}
		in.Cookie, in.User, err = s.SignIn(ctx, tx, row.ID, passwordMethod())
		return err
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// refuse counts a wrong password and returns the refusal. It does the same work
// whether the account exists (userID) or not (0).
func (s *Service) refuse(ctx context.Context, guess guess, userID int64, email string) error {
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		if err := guess.take(ctx, tx); err != nil {
			return err
		}
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

// guess is one attempt at a password, as the limits see it.
type guess struct {
	limiter          *ratelimit.Limiter
	limits           Limits
	account, address string // buckets
}

func (s *Service) guess(ctx context.Context, email string) guess {
	return guess{
		limiter: s.limiter, limits: s.limits,
		account: accountBucket(email),
		address: "login.address " + ratelimit.AddressKey(web.ClientIP(ctx)),
	}
}

func accountBucket(email string) string { return hiddenBucket("login.account", email) }

// check refuses when either limit is reached.
func (g guess) check(ctx context.Context, q sqldb.Querier) error {
	if err := g.limiter.CheckIn(ctx, q, g.account, g.limits.WrongPasswordsPerAccount.Max); err != nil {
		return err
	}
	return g.limiter.CheckIn(ctx, q, g.address, g.limits.WrongPasswordsPerAddress.Max)
}

// take counts a wrong password on both; always in this order, so that two
// transactions cannot wait for each other.
func (g guess) take(ctx context.Context, tx sqldb.Querier) error {
	account, address := g.limits.WrongPasswordsPerAccount, g.limits.WrongPasswordsPerAddress
	if err := g.limiter.TakeIn(ctx, tx, g.account, account.Max, account.Window); err != nil {
		return err
	}
	return g.limiter.TakeIn(ctx, tx, g.address, address.Max, address.Window)
}
