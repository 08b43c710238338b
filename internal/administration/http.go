package administration

import (
	"context"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/web"
)

type handler struct{ *Service }

// Mount adds the area's routes.
func (s *Service) Mount(m *web.Mux) {
	h := handler{s}
	web.RouteReply(m, "GET /apiv1/admin/users", access.Admin(), h.listUsers)
}

func (h handler) listUsers(ctx context.Context, in *struct{ web.Page }) (*web.Reply[[]identity.User], error) {
	users, total, err := h.ListUsers(ctx, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(users, total, in.Page), nil
}
