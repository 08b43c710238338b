package certs

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/sqldb"
	"certharbor.dev/certharbor/internal/web"
)

// Record returns the user's certificate with its heavy members, or the fault
// NotFound("certificate").
func (s *Service) Record(ctx context.Context, q sqldb.Querier, userID, certID int64) (Certificate, error) {
	row, err := New(q).certificateByID(ctx, certificateByIDParams{UserID: userID, ID: certID})
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return Certificate{}, errNotFound()
	}
	if err != nil {
		return Certificate{}, fmt.Errorf("load certificate: %w", err)
	}
	c, err := fromRow(&row.CertificateRow, s.Now())
	c.Heavy = heavy(row.ChainPem, row.Csr)
	return c, err
}

// source is one of the lists: how to count it and how to read a page of it.
type source struct {
	count func(*Queries) (int64, error)
	page  func(q *Queries, most, skip int64) ([]certificateRow, error)
}

func ofUser(ctx context.Context, userID int64) source {
	return source{
		count: func(q *Queries) (int64, error) { return q.countCertificates(ctx, userID) },
		page: func(q *Queries, most, skip int64) ([]certificateRow, error) {
			return q.certificatesOf(ctx, certificatesOfParams{UserID: userID, Max: most, Skip: skip})
		},
	}
}

func ofAccount(ctx context.Context, acctID int64) source {
	return source{
		count: func(q *Queries) (int64, error) { return q.countCertificatesOfAccount(ctx, nullable(acctID)) },
		page: func(q *Queries, most, skip int64) ([]certificateRow, error) {
			return q.certificatesOfAccount(ctx, certificatesOfAccountParams{AcctID: nullable(acctID), Max: most, Skip: skip})
		},
	}
}

func ofDevice(ctx context.Context, deviceID int64) source {
	return source{
		count: func(q *Queries) (int64, error) { return q.countCertificatesOfDevice(ctx, deviceID) },
		page: func(q *Queries, most, skip int64) ([]certificateRow, error) {
			return q.certificatesOfDevice(ctx, certificatesOfDeviceParams{DeviceID: deviceID, Max: most, Skip: skip})
		},
	}
}

// list reads a page, newest first, and how many there are in all. The count is
// asked for only where the page does not tell.
func (s *Service) list(ctx context.Context, from source, page web.Page, most bool) ([]Certificate, int64, error) {
	q := New(s.DB.Reader())
	rows, err := from.page(q, page.Limit, page.Offset)
	if err != nil {
		return nil, 0, fmt.Errorf("list certificates: %w", err)
	}
	total := page.Offset + int64(len(rows))
	if int64(len(rows)) == page.Limit || len(rows) == 0 && page.Offset > 0 {
		if total, err = from.count(q); err != nil {
			return nil, 0, fmt.Errorf("count certificates: %w", err)
		}
	}
	now := s.Now()
	all := make([]Certificate, len(rows))
	for i := range rows {
		if all[i], err = fromRow(&rows[i], now); err != nil {
			return nil, 0, err
		}
		if !most {
			continue
		}
		m, err := materials(ctx, s.DB.Reader(), all[i].ID)
		if err != nil && !fault.Is(err, fault.CodeNotFound) { // deleted since
			return nil, 0, err
		}
		all[i].Heavy = heavy(m.ChainPem, m.Csr)
	}
	return all, total, nil
}

// named returns those of the certificates that the user has, newest first, for
// a key that is granted these alone. acctID 0 means of any account.
func (s *Service) named(ctx context.Context, userID, acctID int64, ids []int64, most bool) ([]Certificate, error) {
	all := []Certificate{}
	for _, id := range slices.Backward(slices.Compact(slices.Sorted(slices.Values(ids)))) {
		c, err := s.Record(ctx, s.DB.Reader(), userID, id)
		if fault.Is(err, fault.CodeNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if acctID != 0 && c.AcctID != acctID {
			continue
		}
		if !most {
			c.Heavy = nil
		}
		all = append(all, c)
	}
	return all, nil
}
