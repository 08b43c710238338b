package devices

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/ratelimit"
	"certharbor.dev/certharbor/internal/seal"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// renew gives the next pair for a token that spend found good, and one more for
// a token whose answer may have been lost.
func (s *Service) renew(ctx context.Context, tx *sqldb.Tx, keys *signingKeys, p presented) (DeviceTokens, error) {
	if p.again {
		if err := s.answeredAgain(ctx, tx, p); err != nil {
			return DeviceTokens{}, err
		}
	} else if err := s.use(ctx, tx, &p.token); err != nil {
		return DeviceTokens{}, err
	}
	if err := New(tx).markRotated(ctx, markRotatedParams{Now: s.Now().UnixMilli(), ID: p.token.ID}); err != nil {
		return DeviceTokens{}, fmt.Errorf("rotate refresh token: %w", err)
	}
	return s.issue(ctx, tx, keys, p.device, p.token.SessionNo, valid(p.token.ID))
}

// answeredAgain notes that a token was answered once more, and tells the owner
// when the answer goes to a network address that the family did not have before.
// A device that does nothing else has to wait (429, which agents repeat): it
// would fill the log, and the owner's mailbox from one address after the other.
func (s *Service) answeredAgain(ctx context.Context, tx *sqldb.Tx, p presented) error {
	err := s.Limiter.CountIn(ctx, tx, ratelimit.Hit{Rule: ratelimit.RefreshesAgain, Key: object(p.device.ID), Max: againPerHour, Window: time.Hour})
	if err != nil {
		return err
	}
	address := clientAddress(ctx)
	known, err := New(tx).countFrom(ctx, countFromParams{DeviceID: p.device.ID, SessionNo: p.token.SessionNo, Address: address})
	if err != nil {
		return fmt.Errorf("look for the address of a refresh: %w", err)
	}
	if known == 0 {
		d, err := fromRow(p.device)
		if err == nil {
			err = s.tell(ctx, tx, Notice{Kind: NoticeRefresh, UserID: d.UserID, Device: d, Address: web.ClientIP(ctx)})
		}
		if err != nil {
			return err
		}
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: p.device.UserID, Action: "device.refresh_again", Object: object(p.device.ID),
		Detail: map[string]any{"session_no": p.token.SessionNo, "rotated_at": p.token.RotatedAt.Int64, "new_address": known == 0},
	})
}

// clientAddress is the network that a caller is known by.
func clientAddress(ctx context.Context) string { return ratelimit.AddressKey(web.ClientIP(ctx)) }

// use notes the first use of a pair, whose device is locked: it wins over its
// siblings, which are good for nothing from then on.
func (s *Service) use(ctx context.Context, tx *sqldb.Tx, t *refreshTokenRow) error {
	if t.UsedAt.Valid {
		return nil
	}
	q, now := New(tx), ms(s.Now())
	if err := q.markUsed(ctx, markUsedParams{Now: now, ID: t.ID}); err != nil {
		return fmt.Errorf("note the use of a pair: %w", err)
	}
	err := q.loseSiblings(ctx, loseSiblingsParams{
		Now: now, DeviceID: t.DeviceID, SessionNo: t.SessionNo, PredecessorID: t.PredecessorID.Int64, ID: t.ID,
	})
	if err != nil {
		return fmt.Errorf("end the siblings of a pair: %w", err)
	}
	return nil
}

// issue makes a pair of a family of the locked device. predecessor is the token
// it is given for, null after a registration. What the family no longer needs
// goes, so that refreshing in a loop fills no table.
func (s *Service) issue(ctx context.Context, tx *sqldb.Tx, keys *signingKeys, d deviceRow, sessionNo int64, predecessor sql.NullInt64) (DeviceTokens, error) {
	q, now := New(tx), s.Now()
	token, lookup := newRefreshToken()
	id, err := q.insertRefreshToken(ctx, insertRefreshTokenParams{
		DeviceID: d.ID, SessionNo: sessionNo, Lookup: lookup, TokenHash: seal.HashToken(token), CreatedAt: now.UnixMilli(),
		ExpiresAt: now.Add(refreshTTL).UnixMilli(), PredecessorID: predecessor, Address: clientAddress(ctx),
	})
	if err != nil {
		return DeviceTokens{}, fmt.Errorf("store refresh token: %w", err)
	}
	err = q.pruneSiblings(ctx, pruneSiblingsParams{DeviceID: d.ID, SessionNo: sessionNo, PredecessorID: predecessor.Int64, Keep: keptSiblings})
	if err == nil && predecessor.Valid {
		err = q.pruneFamily(ctx, pruneFamilyParams{DeviceID: d.ID, SessionNo: sessionNo, Before: predecessor.Int64, Keep: keptPairs})
	}
	if err != nil {
		return DeviceTokens{}, fmt.Errorf("prune refresh tokens: %w", err)
	}
	signed, err := s.sign(keys, d, sessionNo, id, now)
	if err != nil {
		return DeviceTokens{}, err
	}
	return DeviceTokens{AccessToken: signed, RefreshToken: token, TokenType: "Bearer", ExpiresIn: int64(s.AccessTTL / time.Second)}, nil
}
