package certs

import (
	"context"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// maxTurnSteps bounds how many users one look goes through. Each costs two
	// steps in an index; with more users the next looks see the rest.
	maxTurnSteps = 5000
	// minDue keeps a due time apart from 0, which means never.
	minDue = 1
)

// Due are the certificates of one user whose renewal is due, the longest
// overdue first, without heavy members.
type Due struct {
	UserID       int64
	Certificates []Certificate
}

// DueForRenewal lists what is due at now (Unix ms): of at most users users, in
// the order of their ids and beginning behind after, at most each certificates.
// seen is the last user that was looked at, 0 when there is none behind after
// that was not: the next look begins with the first user again.
func (s *Service) DueForRenewal(ctx context.Context, q sqldb.Querier, now, after int64, users, each int) (due []Due, seen int64, err error) {
	rows, err := New(q).usersDue(ctx, usersDueParams{After: after, Steps: maxTurnSteps, Now: now, Max: int64(users)})
	if err != nil {
		return nil, 0, fmt.Errorf("list users with renewals that are due: %w", err)
	}
	for i, row := range rows {
		if i == users-1 || !row.Due { // more may follow
			seen = row.UserID
		}
		if !row.Due {
			continue
		}
		list, err := New(q).certificatesDue(ctx, certificatesDueParams{UserID: row.UserID, Now: now, Max: int64(each)})
		if err != nil {
			return nil, 0, fmt.Errorf("list certificates due for renewal: %w", err)
		}
		d := Due{UserID: row.UserID}
		for k := range list {
			c, err := fromRow(&list[k], time.UnixMilli(now))
			if err != nil {
				return nil, 0, err
			}
			d.Certificates = append(d.Certificates, c)
		}
		if len(d.Certificates) > 0 {
			due = append(due, d)
		}
	}
	return due, seen, nil
}

// PostponeRenewal moves next_renewal_at to a time (Unix ms), or to now when
// that is past: later after a failure, or to where the CA's renewal information
// has it. A certificate that does not renew by itself stays so.
func (s *Service) PostponeRenewal(ctx context.Context, tx *sqldb.Tx, certID, at int64) error {
	if err := New(tx).postponeRenewal(ctx, postponeRenewalParams{ID: certID, At: s.notBeforeNow(at)}); err != nil {
		return fmt.Errorf("postpone renewal: %w", err)
	}
	return nil
}

// PutOffRenewal is PostponeRenewal for a certificate as DueForRenewal listed
// it. Where its owner has planned it anew since then, that stands.
func (s *Service) PutOffRenewal(ctx context.Context, tx *sqldb.Tx, c *Certificate, at int64) error {
	err := New(tx).putOffRenewal(ctx, putOffRenewalParams{ID: c.ID, Before: c.NextRenewalAt, At: s.notBeforeNow(at)})
	if err != nil {
		return fmt.Errorf("put off renewal: %w", err)
	}
	return nil
}

// BlockRenewal stops a certificate, as DueForRenewal listed it, from renewing by
// itself, for a reason in a sentence, until it is issued again or its owner or
// something about its names changes. blocked is false where the owner has
// planned it anew since then.
func (s *Service) BlockRenewal(ctx context.Context, tx *sqldb.Tx, c *Certificate, reason string) (blocked bool, err error) {
	n, err := New(tx).blockRenewal(ctx, blockRenewalParams{ID: c.ID, Before: c.NextRenewalAt, Reason: reason})
	if err != nil {
		return false, fmt.Errorf("block renewal: %w", err)
	}
	return n > 0, nil
}

// notBeforeNow keeps due times from lying in the past: the longest overdue come
// first, and nobody gets before others by what they set.
func (s *Service) notBeforeNow(at int64) int64 { return max(minDue, at, s.Now().UnixMilli()) }

// strayBatch is how many stray renewals are read at a time.
const strayBatch = 500

// ReplanRenewals plans anew what is put off beyond latest (Unix ms) and beyond
// the end of its certificate: a clock that was wrong did that, and until that
// time came nothing would be renewed.
func (s *Service) ReplanRenewals(ctx context.Context, tx *sqldb.Tx, latest int64) error {
	for {
		rows, err := New(tx).strayRenewals(ctx, strayRenewalsParams{Latest: latest, Max: strayBatch})
		if err != nil {
			return fmt.Errorf("list stray renewals: %w", err)
		}
		for i := range rows {
			c, err := fromRow(&rows[i], s.Now())
			if err != nil {
				return err
			}
			// Not after the end of the certificate, so it is not found again.
			if err := s.PostponeRenewal(ctx, tx, c.ID, min(c.renewAt(s.Now()), c.NotAfter)); err != nil {
				return err
			}
		}
		if len(rows) < strayBatch {
			break
		}
	}
	err := New(tx).hastenReissues(ctx, hastenReissuesParams{At: s.Now().Add(reissueGather).UnixMilli(), Latest: latest})
	if err != nil {
		return fmt.Errorf("bring back re-issues: %w", err)
	}
	return nil
}
