package issuance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

// errLost says that somebody else saved, cancelled or deleted the attempt: the
// worker stops without a trace.
var errLost = errors.New("the attempt is in other hands")

const (
	// saveTime bounds a save. It goes on when the run ends, since what it saves
	// has happened at the authority already.
	saveTime      = 10 * time.Second
	firstSaveWait = 50 * time.Millisecond
	maxSaveWait   = 3 * time.Second
)

// line is what a save adds to the log.
type line struct{ step, message string }

// saveRow writes next over the row that was read, or returns errLost.
func (s *Service) saveRow(ctx context.Context, tx *sqldb.Tx, before, next issuanceRow, lines ...line) error {
	q := New(tx)
	n, err := q.saveIssuance(ctx, saveIssuanceParams{
		Status: next.Status, Names: next.Names, ValiditySeconds: next.ValiditySeconds, Replaces: next.Replaces,
		OrderUrl: next.OrderUrl, Orders: next.Orders, Registrations: next.Registrations, ErrorMessage: next.ErrorMessage,
		Step: next.Step, StepSince: next.StepSince, Tries: next.Tries, Holder: s.node, LeaseUntil: next.LeaseUntil,
		DueAt: next.DueAt, CompletedAt: next.CompletedAt, ID: before.ID, Version: before.Version,
	})
	if err != nil {
		return fmt.Errorf("save issuance %d: %w", before.ID, err)
	}
	if n == 0 {
		return errLost
	}
	for _, l := range lines {
		err := q.addLog(ctx, addLogParams{IssuanceID: before.ID, At: s.Now().UnixMilli(), Step: l.step, Message: l.message})
		if err != nil {
			return fmt.Errorf("log issuance %d: %w", before.ID, err)
		}
	}
	return nil
}

// save changes the attempt's row in one transaction, together with what more
// does. more may be nil and may run several times. A commit that was not
// confirmed is looked up, and one that did not happen is repeated, so that what
// the authority answered is not lost with it.
func (a *attempt) save(ctx context.Context, message string, change func(*issuanceRow), more func(context.Context, *sqldb.Tx, issuanceRow) error) error {
	a.s.reached(ctx, "save "+a.row.Step)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	next := a.row
	change(&next)
	if next.Step != a.row.Step {
		next.StepSince, next.Tries = a.s.Now().UnixMilli(), 0
	}
	var lines []line
	if message != "" {
		lines = []line{{a.row.Step, message}}
	}
	for wait := firstSaveWait; ; wait *= 2 {
		err := a.s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
			if more != nil { // it may touch the certificate
				if err := a.s.Certs.Hold(ctx, tx, a.row.CertID); err != nil {
					return err
				}
			}
			if err := a.s.saveRow(ctx, tx, a.row, next, lines...); err != nil || more == nil {
				return err
			}
			return more(ctx, tx, next)
		})
		saved := err == nil
		if sqldb.Is(err, sqldb.ErrUncertain) {
			saved, err = a.wasSaved(ctx, next, err)
		}
		if saved {
			next.Version, next.Holder = a.row.Version+1, a.s.node
			a.row = next
			return nil
		}
		if !mayPass(err) || wait > maxSaveWait || a.s.sleep(ctx, wait) != nil {
			return err
		}
	}
}

// wasSaved looks whether the commit with this error happened.
func (a *attempt) wasSaved(ctx context.Context, next issuanceRow, uncertain error) (bool, error) {
	found, err := New(a.s.DB.Reader()).issuanceByID(ctx, a.row.ID)
	switch {
	case sqldb.Is(err, sqldb.ErrNotFound):
		return false, errLost
	case err != nil:
		return false, errors.Join(uncertain, err)
	case found.Version == a.row.Version:
		return false, uncertain
	case found.Version == a.row.Version+1 && found.Holder == a.s.node && found.Status == next.Status && found.Step == next.Step:
		return true, nil
	}
	return false, errLost
}

// mayPass tells whether the same save may succeed in a moment.
func mayPass(err error) bool {
	for _, class := range []error{errLost, sqldb.ErrBroken, sqldb.ErrConflict, sqldb.ErrForeignKey, sqldb.ErrNotFound} {
		if sqldb.Is(err, class) {
			return false
		}
	}
	return fault.As(err) == nil
}
