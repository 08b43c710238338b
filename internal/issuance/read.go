package issuance

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// List returns a page of the certificate's attempts, newest first, and their
// number.
func (s *Service) List(ctx context.Context, userID, certID int64, page web.Page) ([]Issuance, int64, error) {
	if _, err := s.Certs.Record(ctx, s.DB.Reader(), userID, certID); err != nil {
		return nil, 0, err
	}
	q := New(s.DB.Reader())
	total, err := q.countIssuances(ctx, certID)
	if err != nil {
		return nil, 0, fmt.Errorf("count issuances: %w", err)
	}
	const step = 50 // each may bring a hundred names and a request
	rows, _, err := web.Fill(page, step, func(r *issuanceRow) int { return 1000 + len(r.Names) + len(r.ErrorMessage) + len(r.Csr) }, func(most, skip int64) ([]issuanceRow, error) {
		return q.issuancesOf(ctx, issuancesOfParams{CertID: certID, Max: most, Skip: skip})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list issuances: %w", err)
	}
	list := make([]Issuance, 0, len(rows))
	for _, row := range rows {
		list = append(list, fromRow(row))
	}
	return list, total, nil
}

// Get returns one attempt with its log.
func (s *Service) Get(ctx context.Context, userID, certID, id int64) (Issuance, error) {
	row, err := s.own(ctx, s.DB.Reader(), userID, certID, id)
	if err != nil {
		return Issuance{}, err
	}
	lines, err := New(s.DB.Reader()).logOf(ctx, id)
	if err != nil {
		return Issuance{}, fmt.Errorf("read log of issuance %d: %w", id, err)
	}
	issuance := fromRow(row)
	for _, line := range lines {
		issuance.Log = append(issuance.Log, LogEntry(line))
	}
	return issuance, nil
}

// own returns the user's attempt, or the fault for the first that does not
// exist of certificate and attempt.
func (s *Service) own(ctx context.Context, q sqldb.Querier, userID, certID, id int64) (issuanceRow, error) {
	row, err := New(q).issuanceOf(ctx, issuanceOfParams{ID: id, CertID: certID, UserID: userID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		if _, err := s.Certs.Record(ctx, q, userID, certID); err != nil {
			return row, err
		}
		return row, fault.NotFound("issue")
	}
	if err != nil {
		return row, fmt.Errorf("read issuance %d: %w", id, err)
	}
	return row, nil
}
