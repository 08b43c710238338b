package devices

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
)

// replayed tells whether a rotated token comes again because the answer to its
// rotation was lost: with the request_id it was rotated with, within
// replayLimit, while its family is alive and nobody has used the successor
// (docs/decisions/0010). The device is locked.
func (s *Service) replayed(ctx context.Context, q sqldb.Querier, p presented, requestID string) (bool, error) {
	t := p.token
	if requestID == "" || t.RequestHash == nil || !t.RotatedAt.Valid || t.SessionNo != p.device.SessionNo ||
		s.Now().Sub(time.UnixMilli(t.RotatedAt.Int64)) > replayLimit || !seal.TokenMatches(requestID, t.RequestHash) {
		return false, nil
	}
	_, err := New(q).unusedSuccessor(ctx, unusedSuccessorParams{DeviceID: t.DeviceID, PredecessorID: valid(t.ID)})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the unused successor: %w", err)
	}
	return true, nil
}

// renew gives the next pair for a token that spend found good. A replay's pair
// takes the place of the one that was never received.
func (s *Service) renew(ctx context.Context, tx *sqldb.Tx, keys *signingKeys, p presented, requestID string) (DeviceTokens, error) {
	var err error
	switch {
	case p.replayed:
		err = s.Audit.Record(ctx, tx, audit.Entry{
			UserID: p.device.UserID, Action: "device.refresh_replay", Object: object(p.device.ID),
			Detail: map[string]any{"session_no": p.device.SessionNo, "rotated_at": p.token.RotatedAt.Int64},
		})
	case requestID != "":
		err = New(tx).nameRequest(ctx, nameRequestParams{RequestHash: seal.HashToken(requestID), ID: p.token.ID})
	}
	if err != nil {
		return DeviceTokens{}, fmt.Errorf("record the request of a rotation: %w", err)
	}
	return s.issue(ctx, tx, keys, p.device, valid(p.token.ID))
}
