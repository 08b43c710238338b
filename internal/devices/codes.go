package devices

import (
	"context"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/web"
)

// One message per kind of code, whatever is wrong with it (decisions.md 8.9).
var (
	errWrongCode       = fault.Invalid("registration_code", "is not valid for this user; get a new one with POST /auth/device")
	errWrongUserCode   = fault.Invalid("user_code", "is unknown, has expired or was decided already; start the login on the device again")
	errWrongDeviceCode = fault.Invalid("device_code", "is unknown; start again with action device_start")
)

// codeBucket counts wrong codes of every kind by the address they come from.
func codeBucket(ctx context.Context) string {
	return "devices.code " + ratelimit.AddressKey(web.ClientIP(ctx))
}

// startsPerHour bounds the device logins that one address begins: each is a row,
// and nobody has to sign in for it.
const startsPerHour = 1000

func (s *Service) countStart(ctx context.Context) error {
	return s.Limiter.Take(ctx, "devices.start "+ratelimit.AddressKey(web.ClientIP(ctx)), startsPerHour, time.Hour)
}

// wrongCode counts a wrong code and returns its answer, or 5013 when the address
// has sent too many (threats.md scenario 5).
func (s *Service) wrongCode(ctx context.Context, answer error) error {
	if err := s.Limiter.Take(ctx, codeBucket(ctx), s.WrongCodes, time.Hour); err != nil {
		return err
	}
	e := audit.Entry{Action: "device.code_refused", Object: "device code", Detail: map[string]any{"reason": answer.Error()}}
	if c := access.From(ctx); c != nil {
		e.UserID = c.UserID
	}
	s.Audit.Refuse(ctx, e)
	return answer
}
