package devices

import (
	"bytes"
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
	case doorRefresh, doorToken:
		c.lookup, err = s.plausible(ctx, c.RefreshToken)
	case doorKey:
	}
	return err
}

// grant is what a credential entitles to.
type grant struct {
	codeID   int64 // the code that was used
	chosen   int64 // the device that the owner chose with the approval, 0: none
	replayed bool  // the same device sends its used code again
	deviceID int64 // the only device it is good for, 0: any
}

// admit uses up the credential. A refusal is to be committed: it may have ended
// a token family.
func (s *Service) admit(ctx context.Context, tx *sqldb.Tx, c checked) (g grant, refusal, err error) {
	switch c.door {
	case doorCode:
		return s.admitCode(ctx, tx, c)
	case doorRefresh, doorToken:
		p, refusal, err := s.spend(ctx, tx, c.lookup, c.RefreshToken)
		d := p.device
		if err == nil && refusal == nil && (d.UserID != c.UserID || d.PublicID != c.publicID) {
			refusal = errRefreshUnknown
		}
		if err == nil && refusal == nil && c.door == doorToken && !bytes.Equal(p.publicKey(), c.publicKey[:]) {
			err = errOtherKey
		}
		return grant{deviceID: d.ID}, refusal, err
	case doorKey:
		if s.APIKeys != nil { // revoked since the request was let in?
			err = s.APIKeys.Check(ctx, tx, c.KeyID)
		}
		return grant{}, nil, err
	}
	return grant{}, nil, nil
}

// admitCode uses a code once. The same device with the same key may send it
// again for a minute: a lost answer must not strand it (decisions.md 7.5).
func (s *Service) admitCode(ctx context.Context, tx *sqldb.Tx, c checked) (g grant, refusal, err error) {
	q, now := New(tx), s.Now()
	if g.chosen, err = s.approvedFor(ctx, q, c); err != nil {
		return g, nil, err
	}
	taken, err := q.takeCode(ctx, takeCodeParams{Now: ms(now), UsedKey: c.publicKey[:], CodeHash: c.codeHash, UserID: c.UserID})
	if g.codeID = taken.ID; err == nil {
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
	same := err == nil && d.PublicID == c.publicID && bytes.Equal(code.UsedKey, c.publicKey[:])
	if same && !bytes.Equal(d.PublicKey, c.publicKey[:]) {
		waiting, err := s.waitingKey(ctx, tx, d.ID)
		if err != nil {
			return g, nil, err
		}
		same = waiting != nil && bytes.Equal(waiting.PublicKey, c.publicKey[:])
	}
	if !same || now.Sub(time.UnixMilli(code.UsedAt.Int64)) > replayGrace {
		return g, errWrongCode, nil
	}
	return grant{deviceID: d.ID, replayed: true}, nil, s.requireActive(ctx, tx, c.UserID, errWrongCode)
}

// errOtherKey answers a refresh token that comes alone with another key.
var errOtherKey = fault.Invalid("dev_pk", "is not the key that this refresh_token was given for; another key needs a registration_code, from POST /auth/device, or a session")

// approvedFor checks the registration against what was shown at the approval,
// where the device had told it, and gives the device that the owner chose, 0 for
// none.
func (s *Service) approvedFor(ctx context.Context, q *Queries, c checked) (chosen int64, err error) {
	code, err := q.codeByHash(ctx, codeByHashParams{CodeHash: c.codeHash, UserID: c.UserID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return 0, nil // refused by takeCode
	}
	if err != nil {
		return 0, fmt.Errorf("read registration code: %w", err)
	}
	login, err := q.loginByID(ctx, code.LoginID)
	if err != nil {
		return 0, fmt.Errorf("read the login of a registration code: %w", err)
	}
	if login.PublicID != "" && login.PublicID != c.publicID || login.PublicKey != nil && !bytes.Equal(login.PublicKey, c.publicKey[:]) {
		return 0, errWrongCode
	}
	return login.ChosenDeviceID.Int64, nil
}

// refuse counts wrong codes per address before it answers.
func (s *Service) refuse(ctx context.Context, refusal error) error {
	if fault.Is(refusal, fault.CodeInvalid) {
		return s.wrongCode(ctx, refusal)
	}
	return refusal
}
