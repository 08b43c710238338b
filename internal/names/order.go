package names

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// Order is what a user wants a certificate for.
type Order struct {
	UserID int64
	Names  []string // normalised
	// Existing says that the certificate was issued for these names before: what
	// ends goes on renewing for a while.
	Existing bool
}

// MayOrder returns a fault (NAME_TAKEN, NAME_NOT_PROVED) when the user may not
// order one of the names. Until tx ends no other transaction that asks the same
// way, or changes a claim, goes on in one of their domains.
func (s *Service) MayOrder(ctx context.Context, tx *sqldb.Tx, o Order) error {
	if err := s.lock(ctx, tx, o.Names...); err != nil {
		return err
	}
	return s.Check(ctx, tx, o)
}

// Check is MayOrder for callers who do not act on the answer in the same
// transaction.
func (s *Service) Check(ctx context.Context, q sqldb.Querier, o Order) error {
	return s.judge(ctx, q, o, func(name string, v verdict) error { return s.refuse(o.UserID, name, v) })
}

// Missing is Check for a record that is only written down: a name that has yet
// to be proved is no fault. It becomes one of the user's pending names, and the
// sentences say what to set.
func (s *Service) Missing(ctx context.Context, tx *sqldb.Tx, o Order) (sentences []string, err error) {
	err = s.judge(ctx, tx, o, func(name string, v verdict) error {
		err := s.refuse(o.UserID, name, v)
		if v != verdictUnproved {
			return err
		}
		sentences = append(sentences, fault.As(err).What)
		return s.expect(ctx, tx, o.UserID, base(name))
	})
	return sentences, err
}

// refuse is the fault for a verdict, nil where there is none.
func (s *Service) refuse(userID int64, name string, v verdict) error {
	switch v {
	case verdictTaken:
		return taken(name)
	case verdictReserved:
		return reserved(name)
	case verdictUnproved:
		return unproved(base(name), s.record(userID, name))
	case verdictFree, verdictOwn:
	}
	return nil
}

// judge calls verdict for each name, in their order, until it returns an error.
func (s *Service) judge(ctx context.Context, q sqldb.Querier, o Order, each func(name string, v verdict) error) error {
	who := asker{userID: o.UserID, existing: o.Existing}
	var err error
	if slices.ContainsFunc(o.Names, func(name string) bool { return isIP(name) || s.rules.reserved.Has(name) }) {
		if who.admin, err = s.Users.IsAdmin(ctx, q, o.UserID); err != nil {
			return err
		}
	}
	known := map[string][]holding{}
	for _, name := range o.Names {
		domain, _ := Domain(name)
		held, ok := known[domain]
		if !ok {
			if held, err = s.held(ctx, q, o.UserID, domain); err != nil {
				return err
			}
			known[domain] = held
		}
		if len(held) >= manyClaims {
			if held, err = s.heldOn(ctx, q, o.UserID, name, held); err != nil {
				return err
			}
		}
		if err := each(name, s.rules.decide(name, who, held)); err != nil {
			return err
		}
	}
	return nil
}

// lock keeps every other transaction out of the names' domains that locks them,
// until tx ends.
func (s *Service) lock(ctx context.Context, tx *sqldb.Tx, list ...string) error {
	domains := make([]string, 0, len(list))
	for _, name := range list {
		domain, _ := Domain(name)
		domains = append(domains, domain)
	}
	slices.Sort(domains)
	for _, domain := range slices.Compact(domains) {
		if err := tx.LockText(ctx, "name "+domain); err != nil {
			return fmt.Errorf("lock the domain of a name: %w", err)
		}
	}
	return nil
}
