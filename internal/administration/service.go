package administration

import (
	"context"

	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/web"
)

// Deps are what the area needs. All are required.
type Deps struct {
	Identity *identity.Service
}

// Service is the area's rules. Make one with NewService.
type Service struct {
	identity *identity.Service
}

// NewService returns the area's service.
func NewService(d Deps) *Service { return &Service{identity: d.Identity} }

// ListUsers returns the users of the page in the order of their ids, and how
// many there are.
func (s *Service) ListUsers(ctx context.Context, page web.Page) ([]identity.User, int64, error) {
	return s.identity.SearchUsers(ctx, page)
}
