package identity

import (
	"context"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
)

// look compares the password with that of the account, after the try was
// counted: what is past a limit is refused unlooked-at. The caller settles what
// was spent, and gives it back for the right password.
//
// A browser that has signed in to the account before has tries of its own past
// the limits, so that guesses by strangers keep nobody out for good.
func (s *Service) look(ctx context.Context, email, password string, row userRow) (bool, *ratelimit.Spent, error) {
	account := accountKey(email, row.Password)
	hits := []ratelimit.Hit{
		s.limits.WrongPasswordsPerAccount.hit(ratelimit.PasswordsAtAddress, account+" "+addressKey(ctx)),
		s.limits.WrongPasswordsPerAccountTotal.hit(ratelimit.PasswordsOfAccount, s.slot(account)),
		s.limits.WrongPasswordsPerAddress.hit(ratelimit.PasswordsFromAddress, addressKey(ctx)),
	}
	known := s.knownBrowser(ctx, row.ID, row.Password)
	own := s.limits.WrongPasswordsPerAccount.hit(ratelimit.PasswordsFromKnown, known)
	if err := s.limiter.Peek(ctx, hits...); err != nil {
		if !fault.Is(err, fault.CodeRateLimited) || known == "" {
			return false, nil, err
		}
		hits = []ratelimit.Hit{own}
	}
	var spent *ratelimit.Spent
	spend := func() (err error) {
		spent, err = s.limiter.Spend(ctx, nil, hits...)
		if fault.Is(err, fault.CodeRateLimited) && known != "" && len(hits) > 1 {
			spent, err = s.limiter.Spend(ctx, nil, own)
		}
		return err
	}
	matches, err := s.passwords.matches(ctx, password, row.Password, spend)
	if err != nil && spent != nil {
		spent.Settle()
	}
	return matches, spent, err
}
