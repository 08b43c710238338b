package devices

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// The answers to refresh tokens that are not good (wire.md section 2). Agents
// look for the words "rotated" and "family revoked", so only those hold them.
var (
	errRefreshUnknown = fault.Unauthorized("The refresh token is unknown or has expired; log the device in again.")
	errRefreshRotated = &fault.Error{
		Code: fault.CodeRefreshRotated, Key: "refresh_token_rotated",
		What: "The refresh token was already rotated; use the newer one, or log the device in again.",
	}
	errRefreshRevoked = &fault.Error{
		Code: fault.CodeRefreshRotated, Key: "refresh_token_rotated",
		What: "Token family revoked, because the device was registered again or a rotated refresh token was used again; log the device in again.",
	}
	// A refusal (4xx) would be final for an agent, whose user may be enabled again.
	errRefreshInactive = fault.Unavailable(inactiveRetry, "The user of this device is disabled; try again later.", nil)
)

// inactiveRetry is when a device whose user is disabled should ask again.
const inactiveRetry = time.Hour

// Refresh trades a refresh token for the next pair, and again while nobody has
// used what it was traded for: the answer may have been lost. A token that was
// rotated and whose successor was used is 10003, any other that is not good 5018
// (5022 when the device or its user is not active).
func (s *Service) Refresh(ctx context.Context, token string) (DeviceTokens, error) {
	lookup, err := s.plausible(ctx, token)
	if err != nil {
		return DeviceTokens{}, err
	}
	keys, err := s.signer.current(ctx)
	if err != nil {
		return DeviceTokens{}, err
	}
	var tokens DeviceTokens
	var refusal error
	var p presented
	err = s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
		if p, refusal, err = s.spend(ctx, tx, lookup, token); err != nil || refusal != nil {
			return err
		}
		tokens, err = s.renew(ctx, tx, keys, p)
		return err
	})
	if refusal != nil || err != nil {
		s.devices.forget(p.device.ID) // its family may have ended
	}
	if err != nil {
		return DeviceTokens{}, fmt.Errorf("refresh: %w", err)
	}
	if refusal != nil {
		return DeviceTokens{}, refusal
	}
	return tokens, nil
}
