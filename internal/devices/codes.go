package devices

import (
	"context"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// One message per kind of code, whatever is wrong with it (decisions.md 8.9).
var (
	errWrongCode       = fault.Invalid("registration_code", "is not valid for this user; get a new one with POST /auth/device")
	errWrongUserCode   = fault.Invalid("user_code", "is unknown, has expired or was decided already; start the login on the device again")
	errWrongDeviceCode = fault.Invalid("device_code", "is unknown; start again with action device_start")
)

// codeHit counts wrong codes of every kind by the address they come from.
func (s *Service) codeHit(ctx context.Context) ratelimit.Hit {
	return ratelimit.Hit{Rule: ratelimit.DeviceCodesFromAddress, Key: ratelimit.AddressKey(web.ClientIP(ctx)), Max: s.WrongCodes, Window: time.Hour}
}

// startsPerHour bounds the device logins that one address begins: each is a row,
// and nobody has to sign in for it.
const startsPerHour = 1000

func (s *Service) countStart(ctx context.Context) error {
	spent, err := s.Limiter.Spend(ctx, nil, ratelimit.Hit{
		Rule: ratelimit.DeviceStartsFromAddress, Key: ratelimit.AddressKey(web.ClientIP(ctx)), Max: startsPerHour, Window: time.Hour,
	})
	if err != nil {
		return err
	}
	spent.Settle()
	return nil
}

// wrongCode counts a wrong code of 256 random bits, which counting need not keep
// from being guessed, and returns its answer, or 5013 when the address has sent
// too many.
func (s *Service) wrongCode(ctx context.Context, answer error) error {
	spent, err := s.Limiter.Spend(ctx, nil, s.codeHit(ctx))
	if err != nil {
		return err
	}
	spent.Settle()
	return s.refuseCode(ctx, answer)
}

// guess pays for a look at a code that a person can type, and so can be guessed.
// known gives the try back; a wrong code is refused with refuseCode.
func (s *Service) guess(ctx context.Context) (*ratelimit.Spent, error) {
	return s.Limiter.Spend(ctx, nil, s.codeHit(ctx))
}

// known gives back the try of a right code.
func (s *Service) known(ctx context.Context, spent *ratelimit.Spent) error {
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error { return spent.GiveBack(ctx, tx) })
}

// refuseCode records a code that was refused and returns its answer.
func (s *Service) refuseCode(ctx context.Context, answer error) error {
	e := audit.Entry{Action: "device.code_refused", Object: "device code", Detail: map[string]any{"reason": answer.Error()}}
	if c := access.From(ctx); c != nil {
		e.UserID = c.UserID
	}
	s.Audit.Refuse(ctx, e)
	return answer
}
