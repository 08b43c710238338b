package devices

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// plausible tells without a lock whether the token may be one of ours, so that
// garbage never reaches the writer.
func (s *Service) plausible(ctx context.Context, token string) (lookup string, err error) {
	lookup, ok := parseRefreshToken(token)
	if !ok {
		return "", errRefreshUnknown
	}
	_, err = s.refreshRow(ctx, s.DB.Reader(), lookup, token)
	return lookup, err
}

func (s *Service) refreshRow(ctx context.Context, q sqldb.Querier, lookup, token string) (refreshTokenRow, error) {
	row, err := New(q).readRefreshToken(ctx, lookup)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return row, errRefreshUnknown
	}
	if err != nil {
		return row, fmt.Errorf("read refresh token: %w", err)
	}
	if !seal.TokenMatches(token, row.TokenHash) || row.ExpiresAt <= s.Now().UnixMilli() {
		return row, errRefreshUnknown
	}
	return row, nil
}

// presented is a refresh token that was found good.
type presented struct {
	device   deviceRow // locked
	token    refreshTokenRow
	replayed bool // it was rotated by this very request, whose answer was lost
}

// spend checks a refresh token and locks its device. refusal is the answer to a
// token that is not good; what was written (an ended family) is to be committed
// then. The token is not marked: the caller begins or continues a family.
// requestID may be empty; see replayed.
func (s *Service) spend(ctx context.Context, tx *sqldb.Tx, lookup, token, requestID string) (p presented, refusal, err error) {
	q := New(tx)
	p.token, err = s.refreshRow(ctx, tx, lookup, token)
	if err == nil {
		p.device, err = q.lockDevice(ctx, p.token.DeviceID)
	}
	if err == nil { // again, now that nobody else can rotate it
		p.token, err = s.refreshRow(ctx, tx, lookup, token)
	}
	if err == nil {
		p.replayed, err = s.replayed(ctx, tx, p, requestID)
	}
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		return p, errRefreshUnknown, nil
	case fault.As(err) != nil:
		return p, err, nil
	case err != nil:
		return p, nil, fmt.Errorf("spend refresh token: %w", err)
	case p.token.RotatedAt.Valid && !p.replayed:
		return p, errRefreshRotated, s.reused(ctx, tx, p.device, p.token)
	case p.token.SessionNo != p.device.SessionNo:
		return p, errRefreshRevoked, nil
	case p.device.Status != StatusActive:
		return p, errRefreshInactive, nil
	}
	err = s.requireActive(ctx, tx, p.device.UserID, errRefreshInactive)
	if fault.As(err) != nil {
		return p, err, nil
	}
	return p, nil, err
}

// reused ends the family of a token that was used again, unless that happened
// so soon that two processes of one agent explain it (decisions.md 7.6).
func (s *Service) reused(ctx context.Context, tx *sqldb.Tx, d deviceRow, row refreshTokenRow) error {
	now := s.Now()
	if now.Sub(time.UnixMilli(row.RotatedAt.Int64)) <= rotationGrace || row.SessionNo != d.SessionNo {
		return nil
	}
	if err := New(tx).endSession(ctx, endSessionParams{UpdatedAt: now.UnixMilli(), ID: d.ID}); err != nil {
		return fmt.Errorf("end token family: %w", err)
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: d.UserID, Action: "device.refresh_reuse", Object: object(d.ID),
		Detail: map[string]any{"session_no": d.SessionNo, "rotated_at": row.RotatedAt.Int64},
	})
}

// issue rotates every refresh token of the locked device and makes the next
// pair of its family, d.SessionNo. predecessor is the token it is given for,
// null after a registration.
func (s *Service) issue(ctx context.Context, tx *sqldb.Tx, keys *signingKeys, d deviceRow, predecessor sql.NullInt64) (DeviceTokens, error) {
	q, now := New(tx), s.Now()
	if err := q.rotateRefreshTokens(ctx, rotateRefreshTokensParams{RotatedAt: ms(now), DeviceID: d.ID}); err != nil {
		return DeviceTokens{}, fmt.Errorf("rotate refresh tokens: %w", err)
	}
	token, lookup := newRefreshToken()
	err := q.insertRefreshToken(ctx, insertRefreshTokenParams{
		DeviceID: d.ID, SessionNo: d.SessionNo, Lookup: lookup, TokenHash: seal.HashToken(token),
		CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(refreshTTL).UnixMilli(), PredecessorID: predecessor,
	})
	if err != nil {
		return DeviceTokens{}, fmt.Errorf("store refresh token: %w", err)
	}
	signed, err := s.sign(keys, d, now)
	if err != nil {
		return DeviceTokens{}, err
	}
	return DeviceTokens{AccessToken: signed, RefreshToken: token, TokenType: "Bearer", ExpiresIn: int64(s.AccessTTL / time.Second)}, nil
}
