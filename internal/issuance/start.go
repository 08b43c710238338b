package issuance

import (
	"context"
	"fmt"
	"strings"

	"certharbor.dev/certharbor/internal/audit"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/jobs"
	"certharbor.dev/certharbor/internal/names"
	"certharbor.dev/certharbor/internal/sqldb"
)

// keptAttempts of each certificate are kept, with their logs.
const keptAttempts = 100

// order is what a caller asks for.
type order struct {
	trigger         string
	validitySeconds int64 // 0: the CA's choice
	force           bool  // whatever the limit says
}

// Start begins an attempt, or does nothing when one is under way. trigger is
// one of the Trigger constants.
func (s *Service) Start(ctx context.Context, userID, certID int64, trigger string) error {
	_, _, err := s.start(ctx, userID, certID, order{trigger: trigger})
	return err
}

// start returns the attempt and whether it is a new one.
func (s *Service) start(ctx context.Context, userID, certID int64, o order) (issuance Issuance, created bool, err error) {
	// Most of fifty callers at once need no transaction.
	cert, err := s.Certs.Record(ctx, s.DB.Reader(), userID, certID)
	if err != nil {
		return Issuance{}, false, err
	}
	looked := false
	for range 3 {
		row, err := New(s.DB.Reader()).openIssuance(ctx, certID)
		if err == nil {
			return fromRow(row), false, nil
		}
		if !sqldb.Is(err, sqldb.ErrNotFound) {
			return Issuance{}, false, fmt.Errorf("look for an open issuance: %w", err)
		}
		err = s.DB.InTx(ctx, func(tx *sqldb.Tx) (err error) {
			row, created, err = s.insert(ctx, tx, userID, certID, o)
			return err
		})
		if sqldb.Is(err, sqldb.ErrConflict) {
			continue // somebody else was first
		}
		if f := fault.As(err); f != nil && f.Key == names.KeyUnproved && !looked {
			looked = true // the record may stand by now
			if proved, proveErr := s.Names.Prove(ctx, cert.Order()); proveErr == nil && proved {
				continue
			}
		}
		return fromRow(row), created, err
	}
	return Issuance{}, false, fault.Conflict("Other attempts for this certificate begin and end at this moment; try again.")
}

func (s *Service) insert(ctx context.Context, tx *sqldb.Tx, userID, certID int64, o order) (issuanceRow, bool, error) {
	if err := s.Certs.Hold(ctx, tx, certID); err != nil {
		return issuanceRow{}, false, err
	}
	cert, err := s.Certs.Record(ctx, tx, userID, certID)
	if err != nil {
		return issuanceRow{}, false, err
	}
	q := New(tx)
	if row, err := q.openIssuance(ctx, certID); err == nil || !sqldb.Is(err, sqldb.ErrNotFound) {
		return row, false, err
	}
	// Orders are counted: of many at once, on several nodes, each sees those
	// before it.
	if err := tx.LockText(ctx, fmt.Sprintf("orders of user %d", userID)); err != nil {
		return issuanceRow{}, false, err
	}
	if err := s.permitted(ctx, tx, cert, o); err != nil {
		return issuanceRow{}, false, err
	}
	if err := s.Names.MayOrder(ctx, tx, cert.Order()); err != nil {
		return issuanceRow{}, false, err
	}
	if o.trigger != TriggerRenewal && s.Attempt != nil {
		if err := s.Attempt(ctx, tx, userID); err != nil {
			return issuanceRow{}, false, err
		}
	}
	list := cert.Names().All()
	replaces, err := s.predecessor(ctx, tx, cert)
	if err != nil {
		return issuanceRow{}, false, err
	}
	now := s.Now().UnixMilli()
	row, err := q.insertIssuance(ctx, insertIssuanceParams{
		UserID: userID, CertID: certID, Cause: o.trigger, AcctID: cert.AcctID, Challenge: challengeHTTP01, Names: encodeNames(list),
		NameSet: nameSet(list), ValiditySeconds: o.validitySeconds, Replaces: replaces, Step: stepPrepare, Now: now,
	})
	if err != nil {
		return issuanceRow{}, false, fmt.Errorf("insert issuance: %w", err)
	}
	if err := q.forgetAttempts(ctx, forgetAttemptsParams{CertID: certID, Last: row.AttemptNumber - keptAttempts}); err != nil {
		return issuanceRow{}, false, fmt.Errorf("forget old issuances: %w", err)
	}
	if err := q.addLog(ctx, addLogParams{IssuanceID: row.ID, At: now, Step: "start", Message: "queued, trigger " + o.trigger}); err != nil {
		return issuanceRow{}, false, fmt.Errorf("log issuance %d: %w", row.ID, err)
	}
	if err := s.Certs.NoteIssue(ctx, tx, certID, row.ID, StatusPending, now); err != nil {
		return issuanceRow{}, false, err
	}
	err = s.Audit.Record(ctx, tx, audit.Entry{
		UserID: userID, Action: "issuance.start", Object: object(certID), Detail: map[string]any{"issue_id": row.ID, "trigger": o.trigger},
	})
	if err != nil {
		return issuanceRow{}, false, err
	}
	return row, true, s.enqueue(ctx, tx, row.ID)
}

// enqueue sees to a job that runs the attempt.
func (s *Service) enqueue(ctx context.Context, tx *sqldb.Tx, id int64) error {
	return s.jobs.Insert(ctx, tx, runArgs{IssuanceID: id}, jobs.Options{Queue: queue, Unique: true})
}

// issuable returns a fault when this server cannot obtain the certificate.
func (s *Service) issuable(ctx context.Context, q sqldb.Querier, cert certs.Certificate) error {
	if cert.AcctID == 0 {
		return fault.Invalid("acct_id", "the certificate has no ACME account; set one first")
	}
	account, err := s.Accounts.Get(ctx, q, cert.UserID, cert.AcctID)
	if err != nil {
		return err
	}
	if account.OwnCA() {
		return fault.Invalid("acct_id", "issuing from a certificate authority of your own is not supported yet; use an account at an ACME authority")
	}
	if cert.Challenge != "" && cert.Challenge != challengeHTTP01 {
		return fault.Invalid("challenge", "%s is not supported yet; use http-01", cert.Challenge)
	}
	for _, name := range cert.Names().All() {
		if strings.HasPrefix(name, "*.") {
			return fault.Invalid("sans", "the wildcard %s cannot be proved by http-01, the only challenge that is supported yet", name)
		}
	}
	return nil
}

func object(certID int64) string { return fmt.Sprintf("certificate %d", certID) }
