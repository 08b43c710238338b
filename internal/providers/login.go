package providers

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// federated is the method of those whom a provider vouches for. What it asked
// for is not known here, so it counts as one factor.
func federated() identity.Method { return identity.Method{AMR: []string{"fed"}, ACR: "aal1"} }

// start begins a sign-in at the provider: the address to which the browser goes
// and the cookie that ties the attempt to it. to is the path to come back to.
// Errors: 5003 for a provider that is not set up, 5000 for a bad path, 5013 for
// too many attempts, 5014 when the provider has to be asked first and is not
// there.
func (s *Service) start(ctx context.Context, p provider, to string) (string, *http.Cookie, error) {
	to, err := returnPath(to)
	if err != nil {
		return "", nil, err
	}
	a := attempt{provider: p.about().Provider, purpose: toSignIn, returnTo: to}
	if err := s.limiter.Peek(ctx, s.hit(ctx, a.purpose)); err != nil {
		return "", nil, err
	}
	return s.begin(ctx, p, a)
}

func (s *Service) begin(ctx context.Context, p provider, a attempt) (string, *http.Cookie, error) {
	secret, state := seal.NewToken("", secretSize), newState()
	a.expiresAt = s.now().Add(attemptTime).UnixMilli()
	err := s.db.InTx(ctx, func(tx *sqldb.Tx) error { // before the provider is called: the limits count that too
		return s.store(ctx, tx, a, state, secret)
	})
	if err != nil {
		return "", nil, err
	}
	address, err := p.begin(ctx, s.shared(p.about(), secret, state))
	if err != nil {
		return "", nil, err
	}
	return address, s.browser(ctx, loginCookie, secret), nil
}

// answer is what a browser brings back from a provider (RFC 6749 section 4.1.2).
type answer struct {
	state, code string
	problem     string // error: why there is no code
	issuer      string // iss (RFC 9207)
}

// finished is the end of a sign-in or a binding.
type finished struct {
	to      string
	cookies []*http.Cookie
}

// complete ends what start or bindStep began: the user is signed in, or the
// account is bound to the caller. The attempt is used up before the provider is
// asked. Errors: 5018 for every refusal but a conflict, 5030; 5014 when the
// provider is not there.
func (s *Service) complete(ctx context.Context, p provider, in answer) (*finished, error) {
	info, secret := p.about(), s.browserSecret(ctx, loginCookie)
	a, err := s.take(ctx, info, in.state, secret)
	if err != nil {
		return nil, err
	}
	who, err := s.whoIs(ctx, p, in, secret)
	if err != nil {
		return nil, s.refuse(ctx, a, err)
	}
	end := &finished{to: a.returnTo, cookies: []*http.Cookie{s.browser(ctx, loginCookie, "")}}
	if a.purpose == toBind {
		_, err := s.bind(ctx, a, who)
		return end, err
	}
	_, session, err := s.signIn(ctx, a, who, federated())
	end.cookies = append(session, end.cookies...) // the session's first (wire.md section 1.7)
	return end, err
}

// whoIs asks the provider, after what the browser itself says was judged.
func (s *Service) whoIs(ctx context.Context, p provider, in answer, secret string) (account, error) {
	info := p.about()
	switch {
	case in.issuer != "" && info.issuer != "" && subtle.ConstantTimeCompare([]byte(in.issuer), []byte(info.issuer)) != 1:
		return account{}, refused(info.Title, "the answer names another issuer")
	case in.problem == "access_denied", in.problem == "" && in.code == "":
		return account{}, fault.Unauthorized("You did not allow it at " + info.Title + "; begin again if you want to.").Because(errors.New("access_denied"))
	case in.problem != "" && !oauthWord.MatchString(in.problem):
		return account{}, refused(info.Title, "an error without a name")
	case in.problem != "":
		return account{}, refused(info.Title, in.problem)
	}
	return p.finish(ctx, s.shared(info, secret, in.state), in.code)
}
