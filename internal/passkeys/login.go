package passkeys

import (
	"context"
	"errors"
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// errSignIn is the one refusal, whatever is wrong; the audit log has the reason.
func errSignIn(reason string) error {
	return fault.Unauthorized("The passkey was not accepted; ask for new options and try again, or sign in another way.").Because(errors.New(reason))
}

// LoginOptions begins a sign-in and gives the cookie that ties it to the
// browser. Errors: 5013 for too many challenges from the address, 5030 when the
// server's address allows no passkeys.
func (s *Service) LoginOptions(ctx context.Context) (RequestOptions, *http.Cookie, error) {
	if err := s.available(); err != nil {
		return RequestOptions{}, nil, err
	}
	hit := s.hitFromAddress(ctx)
	if err := s.limiter.Peek(ctx, hit); err != nil {
		return RequestOptions{}, nil, err
	}
	secret := seal.NewToken("", challengeSize)
	var challenge string
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		challenge, err = s.newChallenge(ctx, tx, toLogin, browserBinding(secret), hit)
		return err
	})
	if err != nil {
		return RequestOptions{}, nil, err
	}
	return s.rp.request(challenge, nil), s.browser(ctx, secret), nil
}

// SignedIn is the outcome of a sign-in.
type SignedIn struct {
	User    identity.User
	Cookies []*http.Cookie // the new session, and the end of the ceremony's cookie
}

// Login signs in the user whose passkey it is, in place of the session that the
// browser had. Errors: 5018 with one message for every refusal.
func (s *Service) Login(ctx context.Context, body *AssertedCredential) (*SignedIn, error) {
	parsed, err := body.parse()
	if err != nil {
		return nil, err
	}
	if err := s.available(); err != nil {
		return nil, err
	}
	secret := s.browserSecret(ctx)
	c := ceremony{purpose: toLogin, boundTo: browserBinding(secret), refusal: "session.sign_in_refused"}
	if good, err := s.stands(ctx, parsed.Response.CollectedClientData.Challenge, c.purpose, c.boundTo); !good || err != nil {
		if err == nil {
			err = errSignIn("the challenge is unknown, used or late")
		}
		return nil, err
	}
	in := &SignedIn{}
	var refused error
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		refused = nil
		proof, err := s.assert(ctx, tx, c, parsed)
		if err != nil {
			return err
		}
		if proof.refused != "" {
			refused = errSignIn(proof.refused)
			return nil
		}
		session, user, err := s.identity.SignIn(ctx, tx, proof.userID, proof.method)
		if fault.Is(err, fault.CodeUnauthorized) { // the user is disabled
			proof, err = s.refuse(ctx, tx, c, passkeyRow{UserID: proof.userID}, "the user is not active")
			refused = errSignIn(proof.refused)
			return err
		}
		session = append(session, s.browser(ctx, ""))
		in.User, in.Cookies = user, session
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return in, nil
}

// StepUpOptions begins to raise the caller's session. Errors: 5030 when the user
// has no passkey, 5013 for too many challenges.
func (s *Service) StepUpOptions(ctx context.Context) (RequestOptions, error) {
	if err := s.available(); err != nil {
		return RequestOptions{}, err
	}
	caller := access.From(ctx)
	var options RequestOptions
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		own, err := New(tx).passkeysOf(ctx, caller.UserID)
		if err != nil {
			return err
		}
		if len(own) == 0 {
			return fault.Conflict("This account has no passkey; add one first.")
		}
		challenge, err := s.newChallenge(ctx, tx, toStepUp, sessionBinding(caller), s.hitOfUser(caller.UserID))
		if err != nil {
			return err
		}
		options = s.rp.request(challenge, own)
		return nil
	})
	return options, err
}

// StepUp raises the caller's session to aal2 and gives the cookie with its new
// id. Errors: 5018 with one message for every refusal.
func (s *Service) StepUp(ctx context.Context, body *AssertedCredential) (identity.Method, *http.Cookie, error) {
	parsed, err := body.parse()
	if err != nil {
		return identity.Method{}, nil, err
	}
	if err := s.available(); err != nil {
		return identity.Method{}, nil, err
	}
	caller := access.From(ctx)
	c := ceremony{purpose: toStepUp, boundTo: sessionBinding(caller), userID: caller.UserID, refusal: "session.step_up_refused"}
	var method identity.Method
	var cookie *http.Cookie
	var refused error
	err = s.db.InTx(ctx, func(tx *sqldb.Tx) error {
		refused = nil
		proof, err := s.assert(ctx, tx, c, parsed)
		if err != nil {
			return err
		}
		if proof.refused != "" {
			refused = errSignIn(proof.refused)
			return nil
		}
		method = proof.method
		cookie, err = s.identity.StepUp(ctx, tx, caller, proof.method)
		return err
	})
	if err == nil {
		err = refused
	}
	return method, cookie, err
}
