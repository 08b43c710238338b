package certs

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Count tells how many certificates the user has.
func (s *Service) Count(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).countCertificates(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("count certificates: %w", err)
	}
	return n, nil
}

// Bytes tells how much the user's certificates, keys and signing requests take.
func (s *Service) Bytes(ctx context.Context, q sqldb.Querier, userID int64) (int64, error) {
	n, err := New(q).storedBytes(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("add up stored certificates: %w", err)
	}
	return n, nil
}
