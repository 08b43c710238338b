package issuance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	reissueBusy    = 10 * time.Minute // while another attempt is at work
	reissueRefused = time.Hour
)

// errUnderWay undoes a re-issue that found another attempt at work, whose key
// may have been made before the device came.
var errUnderWay = errors.New("another attempt is under way")

// reissue starts attempts for certificates with a key that a device waits for
// and the server cannot give it.
func (s *Service) reissue(ctx context.Context) error {
	due, err := s.Certs.DueForReissue(ctx, s.DB.Reader(), s.Now().UnixMilli(), renewBatch)
	if err != nil {
		return fmt.Errorf("find re-issues that are due: %w", err)
	}
	for i := range due {
		if err := s.reissueOne(ctx, &due[i]); err != nil {
			return err
		}
	}
	return nil
}

// reissueOne starts one re-issue, or puts it off. The history shows it as a
// renewal, which it is, ahead of time.
func (s *Service) reissueOne(ctx context.Context, cert *certs.Certificate) error {
	err := s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		needed, err := s.Certs.TakeReissue(ctx, tx, cert.ID)
		if err != nil || !needed {
			return err
		}
		_, created, err := s.insert(ctx, tx, cert.UserID, cert.ID, order{trigger: TriggerRenewal, force: lifetime(*cert) < limitless})
		if err == nil && !created {
			err = errUnderWay
		}
		return err
	})
	f := fault.As(err)
	wait := reissueRefused
	switch {
	case err == nil, fault.Is(err, fault.CodeNotFound):
		return nil // started, not needed any more, or deleted meanwhile
	case errors.Is(err, errUnderWay), sqldb.Is(err, sqldb.ErrConflict):
		wait = reissueBusy
	case f == nil || f.Code == fault.CodeInternal || f.Code == fault.CodeUnavailable:
		return fmt.Errorf("start re-issue of certificate %d: %w", cert.ID, err)
	default:
		wait = max(wait, f.RetryAfter)
		s.Log.WarnContext(ctx, "a re-issue for a device without the key is put off", "cert_id", cert.ID, "reason", f.What, "seconds", int(wait.Seconds()))
	}
	return s.DB.InTx(ctx, func(tx *sqldb.Tx) error {
		return s.Certs.PostponeReissue(ctx, tx, cert.ID, s.Now().Add(wait).UnixMilli())
	})
}
