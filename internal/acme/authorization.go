package acme

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// Authorization is the CA's view of whether an account may have a name (RFC
// 8555 section 7.1.4).
type Authorization struct {
	URL, Status string
	Name        string // without "*." for a wildcard
	Wildcard    bool
	Expires     time.Time
	Challenges  []Challenge
	// RetryAfter is the wished wait before the next look, 0 if unsaid.
	RetryAfter time.Duration
}

// Challenge is one way to prove control of the name (RFC 8555 section 8).
type Challenge struct {
	Type, URL, Status string
	Token             string // not checked; HTTP01 does
	Problem           *Problem
}

// HTTP01 is an HTTP challenge (RFC 8555 section 8.3) ready to be answered:
// GET /.well-known/acme-challenge/<Token> on port 80 of Name must give
// KeyAuthorization.
type HTTP01 struct {
	Name             string
	Token            string // 16 to 256 characters of base64url
	KeyAuthorization string
	ChallengeURL     string
	AuthorizationURL string
}

// String keeps the key authorization out of messages.
func (h HTTP01) String() string { return h.Name }

// GoString does the same for %#v.
func (h HTTP01) GoString() string { return h.Name }

// LogValue keeps the key authorization out of logs.
func (h HTTP01) LogValue() slog.Value { return slog.StringValue(h.Name) }

// Authorizations looks at all authorizations of an order.
func (c *Client) Authorizations(ctx context.Context, account Account, order Order) ([]Authorization, error) {
	out := make([]Authorization, 0, len(order.Authorizations))
	for _, url := range order.Authorizations {
		one, err := c.Authorization(ctx, account, url)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Authorization looks at one authorization (RFC 8555 section 7.5).
func (c *Client) Authorization(ctx context.Context, account Account, url string) (Authorization, error) {
	var got acme.Authorization
	s, err := c.do(ctx, opAuthorization, func(ctx context.Context, protocol *acme.Client) (err error) {
		got, err = protocol.GetAuthorization(ctx, account.wire(), url)
		return err
	})
	if err != nil {
		return Authorization{}, err
	}
	states := []string{StatusPending, StatusValid, StatusInvalid, StatusDeactivated, StatusExpired, StatusRevoked}
	if !slices.Contains(states, got.Status) || got.Identifier.Value == "" {
		return Authorization{}, bad(opAuthorization, Retry, ErrBadAnswer, "the CA gave an authorization without a known status or without its name")
	}
	out := Authorization{
		URL: url, Status: got.Status, Name: clean(got.Identifier.Value, 253), Wildcard: got.Wildcard,
		Expires: got.Expires, RetryAfter: s.retryAfter,
	}
	for _, challenge := range got.Challenges[:min(len(got.Challenges), 20)] {
		one := Challenge{Type: challenge.Type, URL: challenge.URL, Status: challenge.Status, Token: challenge.Token}
		if challenge.Error != nil {
			one.Problem = stated(opValidate, *challenge.Error, out.Name)
		}
		out.Challenges = append(out.Challenges, one)
	}
	return out, nil
}

// Problem says why the authorization cannot become valid, naming its name. It
// is nil while it is pending or valid.
func (a Authorization) Problem() *Problem {
	if a.Status == StatusPending || a.Status == StatusValid {
		return nil
	}
	for _, challenge := range a.Challenges {
		if challenge.Problem != nil {
			return challenge.Problem
		}
	}
	class := Permanent
	if a.Status != StatusInvalid {
		class = OrderGone // it was good once; a new order gets a new one
	}
	return bad(opValidate, class, nil, "the authorization of "+a.Name+" is "+a.Status)
}

// tokenForm: "only characters in the base64url alphabet" (RFC 8555 section
// 8.3), with bounds of ours. A token becomes part of a path and a row.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)

// HTTP01 picks the HTTP challenge of an authorization. It makes no request.
// The error wraps ErrUnsupported when the CA offers none (as for wildcards),
// ErrBadToken when its token could be harmful.
func (a Account) HTTP01(authorization Authorization) (HTTP01, error) {
	i := slices.IndexFunc(authorization.Challenges, func(c Challenge) bool { return c.Type == acme.ChallengeTypeHTTP01 })
	if i < 0 {
		return HTTP01{}, bad(opChallenge, Permanent, ErrUnsupported, "the CA offers no http-01 challenge for "+authorization.Name)
	}
	challenge := authorization.Challenges[i]
	if !tokenForm.MatchString(challenge.Token) {
		return HTTP01{}, bad(opChallenge, Permanent, ErrBadToken, "the CA gave a token that is not base64url for "+authorization.Name)
	}
	if challenge.URL == "" {
		return HTTP01{}, bad(opChallenge, Permanent, ErrBadAnswer, "the CA gave a challenge without its URL")
	}
	if err := checkURLs(opChallenge, challenge.URL); err != nil {
		return HTTP01{}, err
	}
	wire := a.wire()
	thumbprint, err := wire.Thumbprint()
	if err != nil {
		return HTTP01{}, bad(opChallenge, Permanent, fmt.Errorf("thumbprint: %w", err), "the account key cannot be used")
	}
	// Made here: what the CA says the key authorization is must not be served.
	return HTTP01{
		Name: authorization.Name, Token: challenge.Token, KeyAuthorization: challenge.Token + "." + thumbprint,
		ChallengeURL: challenge.URL, AuthorizationURL: authorization.URL,
	}, nil
}

// Accept tells the CA that the challenge can be checked (RFC 8555 section
// 7.5.1). Accepting one that was checked already is no error.
func (c *Client) Accept(ctx context.Context, account Account, challenge HTTP01) error {
	var got acme.Challenge
	_, err := c.do(ctx, opChallenge, func(ctx context.Context, protocol *acme.Client) (err error) {
		got, err = protocol.InitiateChallenge(ctx, account.wire(), acme.Challenge{URL: challenge.ChallengeURL})
		return err
	})
	if err == nil {
		if got.Status == "" {
			return bad(opChallenge, Retry, ErrBadAnswer, "the CA gave a challenge without a status")
		}
		return nil
	}
	if p := AsProblem(err); p.Class != Permanent || p.Status == 0 {
		return err
	}
	// CAs refuse a challenge that is no longer pending.
	now, lookErr := c.Authorization(ctx, account, challenge.AuthorizationURL)
	if lookErr != nil {
		return err
	}
	open := slices.ContainsFunc(now.Challenges, func(one Challenge) bool {
		return one.URL == challenge.ChallengeURL && one.Status == StatusPending
	})
	if now.Status == StatusPending && open {
		return err
	}
	return nil
}
