package issuance

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"certharbor.dev/certharbor/internal/acme"
	"certharbor.dev/certharbor/internal/certs"
	"certharbor.dev/certharbor/internal/sqldb"
)

const (
	// limitless is the lifetime below which renewals do not mind the limit on
	// orders: such a certificate would expire of it.
	limitless = 24 * time.Hour

	shortestRetry = time.Second
	longestRetry  = 12 * time.Hour
)

// renewLater plans the next try after an attempt that brought no certificate.
// An attempt that was no renewal, or one ahead of time, never brings one forward
// or puts one off that is not due.
func (s *Service) renewLater(ctx context.Context, tx *sqldb.Tx, row issuanceRow, wish time.Duration) error {
	cert, err := s.Certs.Record(ctx, tx, row.UserID, row.CertID)
	if err != nil {
		return err
	}
	outcomes, err := New(tx).lastOutcomes(ctx, lastOutcomesParams{CertID: row.CertID, Max: 20})
	if err != nil {
		return fmt.Errorf("read last outcomes of certificate %d: %w", row.CertID, err)
	}
	failures := 0
	for failures < len(outcomes) && outcomes[failures].Status == StatusFailed {
		failures++
	}
	at := s.Now().Add(max(retryRenewal(failures, lifetime(cert), s.left(cert)), wish)).UnixMilli()
	if planned := row.StartedAt + underWay.Milliseconds(); cert.NextRenewalAt > at && (row.Cause != TriggerRenewal || cert.NextRenewalAt > planned) {
		return nil
	}
	return s.Certs.PostponeRenewal(ctx, tx, row.CertID, at)
}

// retryRenewal is the wait after so many failures in a row: it begins with a
// minute for short-lived certificates and an hour for others, doubles up to
// twelve hours, and never uses up more than a third of what is left.
func retryRenewal(failures int, lifetime, left time.Duration) time.Duration {
	first := min(max(lifetime/1000, time.Minute), time.Hour)
	if lifetime < time.Hour {
		first = max(lifetime/60, shortestRetry)
	}
	wait := min(first<<min(max(failures-1, 0), 10), longestRetry)
	if left > 0 {
		wait = min(wait, left/3)
	} else {
		wait = min(wait, time.Hour) // expired: every hour hurts
	}
	return max(wait, min(first, time.Minute))
}

func lifetime(cert certs.Certificate) time.Duration {
	return time.Duration(cert.NotAfter-cert.NotBefore) * time.Millisecond
}

func (s *Service) left(cert certs.Certificate) time.Duration {
	return time.UnixMilli(cert.NotAfter).Sub(s.Now())
}

// predecessor is the renewal id (RFC 9773) of the leaf that an order replaces,
// or "" when there is none that the same account ordered.
func (s *Service) predecessor(ctx context.Context, q sqldb.Querier, cert certs.Certificate) (string, error) {
	if !cert.Issued() || cert.Heavy == nil {
		return "", nil
	}
	outcomes, err := New(q).lastOutcomes(ctx, lastOutcomesParams{CertID: cert.ID, Max: 20})
	if err != nil {
		return "", fmt.Errorf("read last outcomes of certificate %d: %w", cert.ID, err)
	}
	for _, outcome := range outcomes {
		if outcome.Status != StatusSuccess {
			continue
		}
		leaf := leafOf(cert)
		if outcome.AcctID != cert.AcctID || leaf == nil {
			return "", nil
		}
		id, err := acme.RenewalID(leaf)
		if err != nil {
			return "", nil //nolint:nilerr // a leaf without such an id is not named
		}
		return id, nil
	}
	return "", nil
}

func leafOf(cert certs.Certificate) *x509.Certificate {
	block, _ := pem.Decode([]byte(cert.Cert))
	if block == nil {
		return nil
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return leaf
}
