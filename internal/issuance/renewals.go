package issuance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// renewBatch of one sweep: two in a second are more than a million
	// certificates of 90 days need, and few enough that a server which was away
	// for a week does not come back to all of them at once.
	renewBatch = 10
	// renewUsers and renewEach bound what one sweep reads: so many users, and so
	// many certificates of each. It is more than a batch, since what cannot be
	// issued takes no place in it.
	renewUsers = 40
	renewEach  = 20
	// underWay is for how long a certificate whose renewal runs is not looked at.
	underWay = 2 * time.Hour
)

// putOff is a certificate that cannot be issued now, and why.
type putOff struct {
	cert   *certs.Certificate
	reason *fault.Error
}

// renew starts the renewals that are due. Users take turns, each with one
// certificate, the longest overdue first; the next sweep begins behind the user
// that was served last. However much is due at one user, all others wait for
// one renewal of it and not for all.
func (s *Service) renew(ctx context.Context) error {
	due, seen, err := s.dueByTurns(ctx)
	if err != nil {
		return err
	}
	var refused []putOff
	started := 0
	for round := true; round && started < renewBatch; {
		round = false
		for i := range due {
			began, rest, err := s.renewNext(ctx, due[i].Certificates, &refused)
			if err != nil {
				return err
			}
			due[i].Certificates = rest
			round = round || len(rest) > 0
			if began {
				started, seen = started+1, due[i].UserID
			}
			if started == renewBatch {
				break
			}
		}
	}
	s.mu.Lock()
	s.renewed = seen
	s.mu.Unlock()
	return s.putOff(ctx, refused)
}

// dueByTurns lists what is due, beginning behind the user who was served last.
// seen is the last user that it looked at.
func (s *Service) dueByTurns(ctx context.Context) (due []certs.Due, seen int64, err error) {
	s.mu.Lock()
	after := s.renewed
	s.mu.Unlock()
	now := s.Now().UnixMilli()
	due, seen, err = s.Certs.DueForRenewal(ctx, s.DB.Reader(), now, after, renewUsers, renewEach)
	if err != nil || seen != 0 || after == 0 {
		return due, seen, err
	}
	first, seen, err := s.Certs.DueForRenewal(ctx, s.DB.Reader(), now, 0, renewUsers, renewEach)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range first {
		if d.UserID <= after && len(due) < renewUsers {
			due = append(due, d)
			seen = d.UserID
		}
	}
	return due, seen, nil
}

// renewNext starts the renewal of the first of a user's certificates that can
// be issued. rest are those behind it; those before it are refused.
func (s *Service) renewNext(ctx context.Context, list []certs.Certificate, refused *[]putOff) (began bool, rest []certs.Certificate, err error) {
	for i := range list {
		reason, err := s.renewOne(ctx, list[i])
		if err != nil {
			return false, nil, err
		}
		if reason == nil {
			return true, list[i+1:], nil
		}
		*refused = append(*refused, putOff{&list[i], reason})
	}
	return false, nil, nil
}

// renewOne starts the renewal of a certificate, or says why it cannot. Most
// refusals cost no transaction.
func (s *Service) renewOne(ctx context.Context, cert certs.Certificate) (*fault.Error, error) {
	o := order{trigger: TriggerRenewal, force: lifetime(cert) < limitless}
	err := s.permitted(ctx, s.DB.Reader(), cert, o)
	if err == nil {
		err = s.Names.Check(ctx, s.DB.Reader(), cert.Order())
	}
	if err == nil {
		err = s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			if _, _, err := s.insert(ctx, tx, cert.UserID, cert.ID, o); err != nil {
				return err
			}
			return s.Certs.PostponeRenewal(ctx, tx, cert.ID, s.Now().Add(underWay).UnixMilli())
		})
	}
	f := fault.As(err)
	switch {
	case err == nil, fault.Is(err, fault.CodeNotFound), sqldb.Is(err, sqldb.ErrConflict):
		return nil, nil // started, deleted since it was listed, or started by another node
	case f == nil || f.Code == fault.CodeInternal || f.Code == fault.CodeUnavailable:
		return nil, fmt.Errorf("start renewal of certificate %d: %w", cert.ID, err)
	}
	return f, nil
}

// permitted returns the fault of an order that must not be placed.
func (s *Service) permitted(ctx context.Context, q sqldb.Querier, cert certs.Certificate, o order) error {
	if err := s.issuable(ctx, q, cert); err != nil {
		return err
	}
	if o.force {
		return nil
	}
	return s.limit(ctx, q, cert.UserID, nameSet(cert.Names().All()))
}

// blockRenewal stops the renewals of a certificate whose names are not, or no
// longer, its owner's.
func (s *Service) blockRenewal(ctx context.Context, tx *sqldb.Tx, r putOff) error {
	blocked, err := s.Certs.BlockRenewal(ctx, tx, r.cert, r.reason.What)
	if err != nil || !blocked {
		return err
	}
	return s.Audit.Record(ctx, tx, audit.Entry{
		UserID: r.cert.UserID, Action: "certificate.renewal_blocked", Object: object(r.cert.ID), Detail: map[string]any{"reason": r.reason.What},
	})
}

// putOff moves the renewals of what cannot be issued, all in one transaction.
func (s *Service) putOff(ctx context.Context, refused []putOff) error {
	if len(refused) == 0 {
		return nil
	}
	slices.SortFunc(refused, func(a, b putOff) int { return cmp.Compare(a.cert.ID, b.cert.ID) }) // two nodes lock in one order
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		for _, r := range refused {
			if names.Refused(r.reason) {
				if err := s.blockRenewal(ctx, tx, r); err != nil {
					return err
				}
				continue
			}
			wait := max(retryRenewal(1, lifetime(*r.cert), s.left(*r.cert)), r.reason.RetryAfter)
			if err := s.Certs.PutOffRenewal(ctx, tx, r.cert, s.Now().Add(wait).UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("put off renewals: %w", err)
	}
	told := map[int64]int{} // one line for each user, however much is refused
	for _, r := range refused {
		if told[r.cert.UserID]++; told[r.cert.UserID] == 1 {
			s.Log.WarnContext(ctx, "renewals are put off", "user_id", r.cert.UserID, "cert_id", r.cert.ID, "reason", r.reason.What)
		}
	}
	return nil
}
