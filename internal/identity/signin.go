package identity

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// landing is where a browser goes after signing in.
const landing = "/"

// Method is how somebody proved who they are.
type Method struct {
	AMR []string // names of RFC 8176, for example "pwd"; "hwk", "user"
	ACR string   // "aal1", or "aal2" after a passkey
}

// passwordMethod is the method of Login.
func passwordMethod() Method { return Method{AMR: passwordAMR, ACR: acrPassword} }

// LandingPath is where a browser goes after signing in, the "to" of answers.
func (s *Service) LandingPath() string { return landing }

// SignIn makes a session for the user, who has proved to be it by the method,
// in place of the one that the browser had, and returns its cookie and the one
// that makes the browser known to the account (the session's first). The user is
// locked until tx ends, so that nobody who is being disabled gets in. A user
// who does not exist or is not ACTIVE is refused with the 5018 of every refused
// sign-in, one who waits for an administrator with 5022 APPROVAL_PENDING.
func (s *Service) SignIn(ctx context.Context, tx *sqldb.Tx, userID int64, m Method) ([]*http.Cookie, User, error) {
	user, password, err := s.lockActive(ctx, tx, userID)
	if err != nil {
		return nil, User{}, err
	}
	if old := access.From(ctx); old != nil && old.SessionID != 0 {
		if _, err := New(tx).deleteSession(ctx, deleteSessionParams{ID: old.SessionID, UserID: old.UserID}); err != nil {
			return nil, User{}, fmt.Errorf("replace a session: %w", err)
		}
	}
	caller, token, err := s.newSession(ctx, tx, user, m)
	if err != nil {
		return nil, User{}, err
	}
	err = s.audit.Record(access.With(ctx, caller), tx, audit.Entry{
		UserID: user.ID, Action: "session.sign_in", Object: sessionObject(caller.SessionID),
		Detail: map[string]any{"amr": caller.AMR, "ip": web.ClientIP(ctx)},
	})
	if err != nil {
		return nil, User{}, err
	}
	return append([]*http.Cookie{s.cookies.set(token, web.OverTLS(ctx))}, s.remember(ctx, user.ID, password)...), user, nil
}

// StepUp records that the caller has just proved by the method to be still
// there: the session gets its level and time, and another id, whose cookie is
// returned. A method of aal2 adds to what the session was made with; one of
// aal1 replaces it, so that a password never renews what a passkey proved.
// A session that has ended, or whose user is not ACTIVE, is 5018.
func (s *Service) StepUp(ctx context.Context, tx *sqldb.Tx, c *access.Caller, m Method) (*http.Cookie, error) {
	if _, _, err := s.lockActive(ctx, tx, c.UserID); err != nil {
		return nil, err
	}
	amr := slices.Clone(m.AMR)
	if m.ACR == acrPasskey {
		for _, word := range c.AMR {
			if !slices.Contains(amr, word) {
				amr = append(amr, word)
			}
		}
	}
	cookie, err := s.raise(ctx, tx, c, Method{AMR: amr, ACR: m.ACR}, s.now().UnixMilli())
	if err != nil {
		return nil, err
	}
	err = s.audit.Record(ctx, tx, audit.Entry{
		UserID: c.UserID, Action: "session.step_up", Object: sessionObject(c.SessionID),
		Detail: map[string]any{"amr": m.AMR, "acr": m.ACR, "ip": web.ClientIP(ctx)},
	})
	return cookie, err
}

// rotate gives the caller's session another id and leaves the rest as it is.
func (s *Service) rotate(ctx context.Context, tx *sqldb.Tx, c *access.Caller) (*http.Cookie, error) {
	return s.raise(ctx, tx, c, Method{AMR: c.AMR, ACR: c.ACR}, c.AuthTime)
}

// raise writes how and when the session was proved, with a new id.
func (s *Service) raise(ctx context.Context, tx *sqldb.Tx, c *access.Caller, m Method, authTime int64) (*http.Cookie, error) {
	amr, err := wordsText(m.AMR)
	if err != nil {
		return nil, err
	}
	token, now := seal.NewToken("", 32), s.now().UnixMilli()
	_, err = New(tx).raiseSession(ctx, raiseSessionParams{
		NewHash: seal.HashToken(token), Amr: amr, Acr: m.ACR, AuthTime: authTime, Now: now,
		ExpiresAt: now + sessionLifetime.Milliseconds(), ID: c.SessionID, UserID: c.UserID,
	})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return nil, errSession
	}
	if err != nil {
		return nil, fmt.Errorf("raise a session: %w", err)
	}
	return s.cookies.set(token, web.OverTLS(ctx)), nil
}

// CreateFederated makes a user without a password, who signs in with a passkey
// or through a provider, and returns the id: ACTIVE, or PENDING where an
// administrator has to let the user in. It
// counts as a registration from the address of the network (5013). email is an
// address that
// the provider says it has verified, or ""; when it has a user already the
// answer is 5030, because an address alone must not give anybody an account.
// A registration of the address that nobody has confirmed gives way. A name
// that is taken or not allowed is left out.
func (s *Service) CreateFederated(ctx context.Context, tx *sqldb.Tx, mode RegistrationMode, name, email string) (int64, error) {
	if err := mode.admits(); err != nil {
		return 0, err
	}
	if err := s.limiter.CountIn(ctx, tx, s.limits.RegistrationsPerAddress.hit(ratelimit.RegistrationsFromAddress, addressKey(ctx))); err != nil {
		return 0, err
	}
	if email != "" {
		var err error
		if email, err = NormalizeEmail(email); err != nil {
			return 0, err
		}
		if _, err := New(tx).deleteUnconfirmedUser(ctx, email); err != nil {
			return 0, fmt.Errorf("make way for a user: %w", err)
		}
	}
	if CheckUserName(name) != nil {
		name = ""
	}
	insert := func() (int64, error) {
		return New(tx).insertFederatedUser(ctx, insertFederatedUserParams{Email: email, Name: name, Status: string(mode.status()), Now: s.now().UnixMilli()})
	}
	id, err := insert()
	if sqldb.Is(err, sqldb.ErrNotFound) && name != "" { // ON CONFLICT left it out: the name may be why
		name = ""
		id, err = insert()
	}
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, fault.Conflict("email: %s has a user already; sign in to it first and bind the account there", email)
	}
	if err != nil {
		return 0, fmt.Errorf("create federated user: %w", err)
	}
	err = s.audit.Record(ctx, tx, audit.Entry{
		UserID: id, Action: "user.create", Object: userObject(id), Detail: map[string]any{"email": email, "federated": true, "status": mode.status()},
	})
	if err == nil && mode.status() == StatusPending {
		err = s.tellPending(ctx, tx, id, email)
	}
	return id, err
}

// lockActive reads the user and keeps it as it is until tx ends; the text is
// the hash of the password. A user who is not ACTIVE is refused.
func (s *Service) lockActive(ctx context.Context, tx *sqldb.Tx, userID int64) (User, string, error) {
	err := lockUser(ctx, tx, userID)
	if err == nil {
		var row userRow
		if row, err = New(tx).userByID(ctx, userID); err == nil {
			switch Status(row.Status) {
			case StatusActive:
				user, err := row.user()
				return user, row.Password, err
			case StatusPending:
				return User{}, "", errPending()
			case StatusInactive, StatusDisabled:
			}
		}
	}
	if err == nil || sqldb.Is(err, sqldb.ErrNotFound) {
		return User{}, "", errSignIn
	}
	return User{}, "", fmt.Errorf("lock a user: %w", err)
}
