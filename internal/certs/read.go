package certs

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// Rows of a page are read so many at once, fewer where each brings a chain.
const (
	lightStep = 100
	heavyStep = 8
)

// list reads a page, newest first, and how many there are in all. The count is
// asked for only where the page does not tell.
func (s *Service) list(ctx context.Context, from source, page web.Page, most bool) ([]Certificate, int64, error) {
	q := New(s.DB.Reader())
	now := s.Now()
	step := int64(lightStep)
	if most {
		step = heavyStep
	}
	all, early, err := web.Fill(page, step, size, func(limit, skip int64) ([]Certificate, error) {
		rows, err := from.page(q, limit, skip)
		if err != nil {
			return nil, fmt.Errorf("list certificates: %w", err)
		}
		part := make([]Certificate, len(rows))
		for i := range rows {
			if part[i], err = s.listed(ctx, &rows[i], now, most); err != nil {
				return nil, err
			}
		}
		return part, nil
	})
	if err != nil {
		return nil, 0, err
	}
	total := page.Offset + int64(len(all))
	if early || int64(len(all)) == page.Limit || len(all) == 0 && page.Offset > 0 {
		if total, err = from.count(q); err != nil {
			return nil, 0, fmt.Errorf("count certificates: %w", err)
		}
	}
	return all, total, nil
}

func (s *Service) listed(ctx context.Context, row *certificateRow, now time.Time, most bool) (Certificate, error) {
	c, err := fromRow(row, now)
	if err != nil || !most {
		return c, err
	}
	m, err := materials(ctx, s.DB.Reader(), c.ID)
	if err != nil && !fault.Is(err, fault.CodeNotFound) { // deleted since
		return c, err
	}
	c.Heavy = heavy(m.ChainPem, m.Csr)
	return c, nil
}

// size is about how many bytes the texts of a record have.
func size(c *Certificate) int {
	n := 1000 + len(c.DomainName) + len(c.Issuer)
	for _, name := range c.SANs {
		n += len(name)
	}
	if c.Heavy != nil {
		n += len(c.Cert) + len(c.CSR)
	}
	return n
}

// named returns a page of those of the certificates that the user has, newest
// first, for a key that is granted these alone, and how many they are. acctID 0
// means of any account.
func (s *Service) named(ctx context.Context, userID, acctID int64, ids []int64, page web.Page, most bool) (all []Certificate, total int64, err error) {
	left := page.Bytes()
	for _, id := range slices.Backward(slices.Compact(slices.Sorted(slices.Values(ids)))) {
		c, err := s.Record(ctx, s.DB.Reader(), userID, id)
		if fault.Is(err, fault.CodeNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if acctID != 0 && c.AcctID != acctID {
			continue
		}
		if !most {
			c.Heavy = nil
		}
		if total++; total <= page.Offset || total > page.Offset+page.Limit {
			continue
		}
		if left -= size(&c); left >= 0 || len(all) == 0 {
			all = append(all, c)
		}
	}
	return all, total, nil
}
