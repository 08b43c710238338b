package devices

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// precheck reads, without a lock, whether the credential can be good at all.
func (s *Service) precheck(ctx context.Context, c *checked) (err error) {
	switch c.door {
	case doorCode:
		_, err = New(s.DB.Reader()).codeByHash(ctx, codeByHashParams{CodeHash: c.codeHash, UserID: c.UserID})
		if sqldb.Is(err, sqldb.ErrNotFound) {
			return s.refuse(ctx, errWrongCode)
		}
	case doorRefresh:
		c.lookup, err = s.plausible(ctx, c.RefreshToken)
	case doorKey:
	}
	return err
}

// grant is what a credential entitles to.
type grant struct {
	codeID   int64 // the code that was used
	replayed bool  // the same device sends its used code again
	deviceID int64 // the only device it is good for, 0: any
}

// admit uses up the credential. A refusal is to be committed: it may have ended
// a token family.
func (s *Service) admit(ctx context.Context, tx *sqldb.Tx, c checked) (g grant, refusal, err error) {
	switch c.door {
	case doorCode:
		return s.admitCode(ctx, tx, c)
	case doorRefresh:
		p, refusal, err := s.spend(ctx, tx, c.lookup, c.RefreshToken)
		d := p.device
		if err == nil && refusal == nil && (d.UserID != c.UserID || d.PublicID != c.publicID) {
			refusal = errRefreshUnknown
		}
		return grant{deviceID: d.ID}, refusal, err
	case doorKey:
	}
	return grant{}, nil, nil
}

// admitCode uses a code once. The same device with the same key may send it
// again for a minute: a lost answer must not strand it (decisions.md 7.5).
func (s *Service) admitCode(ctx context.Context, tx *sqldb.Tx, c checked) (g grant, refusal, err error) {
	q, now := New(tx), s.Now()
	g.codeID, err = q.takeCode(ctx, takeCodeParams{Now: ms(now), UsedKey: c.publicKey[:], CodeHash: c.codeHash, UserID: c.UserID})
	if err == nil {
		err = s.requireActive(ctx, tx, c.UserID, errWrongCode)
		return g, nil, err
	}
	if !sqldb.Is(err, sqldb.ErrNotFound) {
		return g, nil, fmt.Errorf("take registration code: %w", err)
	}
	code, err := q.codeByHash(ctx, codeByHashParams{CodeHash: c.codeHash, UserID: c.UserID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return g, errWrongCode, nil
	}
	if err != nil {
		return g, nil, fmt.Errorf("read registration code: %w", err)
	}
	d, err := q.lockDevice(ctx, code.UsedDeviceID.Int64)
	if err != nil && !sqldb.Is(err, sqldb.ErrNotFound) {
		return g, nil, fmt.Errorf("lock device: %w", err)
	}
	same := err == nil && d.PublicID == c.publicID && string(d.PublicKey) == string(c.publicKey[:]) && string(code.UsedKey) == string(c.publicKey[:])
	if !same || now.Sub(time.UnixMilli(code.UsedAt.Int64)) > replayGrace {
		return g, errWrongCode, nil
	}
	return grant{deviceID: d.ID, replayed: true}, nil, s.requireActive(ctx, tx, c.UserID, errWrongCode)
}

// refuse counts wrong codes per address before it answers.
func (s *Service) refuse(ctx context.Context, refusal error) error {
	if fault.Is(refusal, fault.CodeInvalid) {
		return s.wrongCode(ctx, refusal)
	}
	return refusal
}
