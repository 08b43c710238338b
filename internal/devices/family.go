package devices

import (
	"context"
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
	device  deviceRow // locked
	waiting *waitingKeyRow
	token   refreshTokenRow
	again   bool // it was answered before, and nobody has used the answer
}

// ofWaiting reports whether the token belongs to a key that waits.
func (p *presented) ofWaiting() bool {
	return p.waiting != nil && p.waiting.SessionNo == p.token.SessionNo
}

// publicKey is the key that the token was given for.
func (p *presented) publicKey() []byte {
	if p.ofWaiting() {
		return p.waiting.PublicKey
	}
	return p.device.PublicKey
}

// spend checks a refresh token and locks its device. refusal is the answer to a
// token that is not good; what was written (an ended family) is to be committed
// then. The token is not marked: the caller begins or continues a family.
func (s *Service) spend(ctx context.Context, tx *sqldb.Tx, lookup, token string) (p presented, refusal, err error) {
	p.token, err = s.refreshRow(ctx, tx, lookup, token)
	if err == nil {
		p.device, err = New(tx).lockDevice(ctx, p.token.DeviceID)
	}
	if err == nil { // again, now that no other transaction can rotate it
		p.token, err = s.refreshRow(ctx, tx, lookup, token)
	}
	if err == nil {
		p.waiting, err = s.waitingKey(ctx, tx, p.device.ID)
	}
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		return p, errRefreshUnknown, nil
	case fault.As(err) != nil:
		return p, err, nil
	case err != nil:
		return p, nil, fmt.Errorf("spend refresh token: %w", err)
	case p.token.SessionNo != p.device.SessionNo && !p.ofWaiting():
		return p, errRefreshRevoked, nil
	}
	over, err := s.over(ctx, tx, &p)
	switch {
	case err != nil:
		return p, nil, err
	case over != 0:
		return p, errRefreshRotated, s.reused(ctx, tx, p, over)
	case p.device.Status != StatusActive:
		return p, errRefreshInactive, nil
	}
	err = s.requireActive(ctx, tx, p.device.UserID, errRefreshInactive)
	if fault.As(err) != nil {
		return p, err, nil
	}
	return p, nil, err
}

// over tells since when the token is no longer good, as Unix ms; 0: it is good.
// It is over once another pair was used in its place: one that was given for
// it, or a sibling. After againLimit it is over too, from then on.
func (s *Service) over(ctx context.Context, q sqldb.Querier, p *presented) (int64, error) {
	t := &p.token
	if t.LostAt.Valid || !t.RotatedAt.Valid {
		return t.LostAt.Int64, nil
	}
	used, err := New(q).successorUse(ctx, successorUseParams{DeviceID: t.DeviceID, SessionNo: t.SessionNo, PredecessorID: valid(t.ID)})
	if err != nil {
		return 0, fmt.Errorf("find the use of a successor: %w", err)
	}
	now := s.Now()
	if used == 0 && now.Sub(time.UnixMilli(t.RotatedAt.Int64)) > againLimit {
		return now.UnixMilli(), nil
	}
	p.again = used == 0
	return used, nil
}

// reused ends the family of a token that is shown after its time, unless that is
// so soon that two processes of one agent, or a call that was held up, explain it.
func (s *Service) reused(ctx context.Context, tx *sqldb.Tx, p presented, over int64) error {
	now := s.Now()
	if now.Sub(time.UnixMilli(over)) <= reuseGrace {
		return nil
	}
	if err := s.endFamily(ctx, tx, p); err != nil {
		return fmt.Errorf("end token family: %w", err)
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: p.device.UserID, Action: "device.refresh_reuse", Object: object(p.device.ID),
		Detail: map[string]any{"session_no": p.token.SessionNo, "over_since": over},
	})
}

// endFamily gives the device, or the key that waits for it, a family number of
// which there are no tokens.
func (s *Service) endFamily(ctx context.Context, tx *sqldb.Tx, p presented) error {
	q := New(tx)
	if !p.ofWaiting() {
		return q.endSession(ctx, endSessionParams{UpdatedAt: s.Now().UnixMilli(), ID: p.device.ID})
	}
	if err := q.setFamilies(ctx, setFamiliesParams{Families: p.device.Families + 1, ID: p.device.ID}); err != nil {
		return err
	}
	return q.endWaitingSession(ctx, endWaitingSessionParams{SessionNo: p.device.Families + 1, DeviceID: p.device.ID})
}
