package audit

import (
	"context"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the route. A log is read by its owner alone: whoever operates the
// server has the database.
func (l *Log) Mount(m *web.Mux) {
	web.RouteReply(m, "GET /apiv1/users/{user_id}/audit-log", access.Session(), l.handleList)
}

type listInput struct {
	web.Page
	Action string `query:"action" maxLength:"100" pattern:"^[a-z0-9_.]*$" doc:"Only entries of exactly this action, for example session.sign_in."`
	Since  int64  `query:"since" minimum:"0" doc:"Only entries at or after this time, Unix ms."`
	Until  int64  `query:"until" minimum:"0" doc:"Only entries before this time, Unix ms."`
}

func (l *Log) handleList(ctx context.Context, in *listInput) (*web.Reply[[]Record], error) {
	if in.Until != 0 && in.Until <= in.Since {
		return nil, fault.Invalid("until", "must be later than since")
	}
	f := Filter{Action: in.Action, Since: in.Since, Until: in.Until}
	records, total, err := l.List(ctx, access.From(ctx).UserID, f, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(records, total, in.Page), nil
}
