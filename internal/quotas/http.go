package quotas

import (
	"context"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the route of the area.
func (s *Service) Mount(m *web.Mux) {
	web.Route(m, "GET /apiv1/users/{user_id}/quotas", access.Session(), s.handleList)
}

func (s *Service) handleList(ctx context.Context, _ *struct{}) ([]Quota, error) {
	return s.List(ctx, access.From(ctx).UserID)
}
