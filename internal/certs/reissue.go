package certs

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// reissueGather is how long a re-issue waits for further devices: a fleet
	// that is set up anew needs one, not one per device.
	reissueGather = 10 * time.Minute
	// reissueEvery is how far apart two re-issues of a certificate are at least.
	reissueEvery = 24 * time.Hour
)

// reissues tells whether a key that a device lacks is made anew by itself. Where
// the server keeps the key it never has to be.
func (c *Certificate) reissues() bool {
	return c.Policy == PolicyDeviceRequired && c.AutoRenew && c.Issued() && c.RevokedAt == 0 && c.AcctID != 0 && c.Origin != OriginCSR
}

// lacking tells whether one of the devices has no wrap of the stored key and
// only another key can give it one.
func lacking(m *materialRow, devices []assignee) bool {
	if m.KeyCiphertext == nil || m.DataKey != nil {
		return false
	}
	for i := range devices {
		if devices[i].keyFP == nil {
			return true
		}
	}
	return false
}

// planReissue sees to a re-issue where one of the devices waits for a key that
// nobody can wrap for it any more: an agent that was wiped, or a device that came
// later.
func (s *Service) planReissue(ctx context.Context, tx *sqldb.Tx, c *Certificate, m *materialRow, devices []assignee) error {
	if !c.reissues() || !lacking(m, devices) {
		return nil
	}
	err := New(tx).planReissue(ctx, planReissueParams{
		CertID: c.ID, DueAt: s.Now().Add(reissueGather).UnixMilli(), Every: reissueEvery.Milliseconds(),
	})
	if err != nil {
		return fmt.Errorf("plan re-issue: %w", err)
	}
	return nil
}

// DueForReissue lists at most limit certificates whose re-issue is due at now
// (Unix ms), without heavy members: users take turns, each with the longest
// overdue first.
func (s *Service) DueForReissue(ctx context.Context, q sqldb.Querier, now int64, limit int) ([]Certificate, error) {
	rows, err := New(q).reissuesDue(ctx, reissuesDueParams{Now: now, Max: int64(limit)})
	if err != nil {
		return nil, fmt.Errorf("list certificates due for re-issue: %w", err)
	}
	due := make([]Certificate, len(rows))
	for i := range rows {
		if due[i], err = fromRow(&rows[i], time.UnixMilli(now)); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// TakeReissue tells whether the re-issue is due and a device still needs it. The
// next one is a day later at the earliest, also if this one fails.
func (s *Service) TakeReissue(ctx context.Context, tx *sqldb.Tx, certID int64) (bool, error) {
	c, err := s.lock(ctx, tx, 0, certID)
	if err != nil {
		return false, err
	}
	now := s.Now()
	n, err := New(tx).takeReissue(ctx, takeReissueParams{
		CertID: certID, Now: now.UnixMilli(), Next: now.Add(reissueEvery).UnixMilli(),
	})
	if err != nil || n == 0 { // another node took it
		return false, err
	}
	m, err := materials(ctx, tx, certID)
	if err != nil {
		return false, err
	}
	devices, err := assignees(ctx, tx, certID)
	if err != nil {
		return false, err
	}
	if c.reissues() && lacking(&m, devices) {
		return true, nil
	}
	return false, New(tx).dropReissue(ctx, certID)
}

// PostponeReissue moves a planned re-issue to a time (Unix ms).
func (s *Service) PostponeReissue(ctx context.Context, tx *sqldb.Tx, certID, at int64) error {
	if err := New(tx).postponeReissue(ctx, postponeReissueParams{CertID: certID, At: at}); err != nil {
		return fmt.Errorf("postpone re-issue: %w", err)
	}
	return nil
}
