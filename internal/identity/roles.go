package identity

import (
	"context"
	"fmt"
	"slices"

	"certharbor.dev/certharbor/internal/sqldb"
)

// Exists reports whether there is such a user, who is not disabled.
func (s *Service) Exists(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	row, err := New(q).userByID(ctx, userID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read a user: %w", err)
	}
	return Status(row.Status) == StatusActive, nil
}

// IsAdmin reports whether the user has the role of administrators; nobody who
// does not exist has it.
func (s *Service) IsAdmin(ctx context.Context, q sqldb.Querier, userID int64) (bool, error) {
	row, err := New(q).userByID(ctx, userID)
	if sqldb.Is(err, sqldb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the roles of a user: %w", err)
	}
	roles, err := words(row.Roles)
	return slices.Contains(roles, RoleAdmin), err
}
