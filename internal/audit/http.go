package audit

import (
	"context"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

// Mount adds the routes. A log is read by its owner and by administrators, and
// what belongs to no user by administrators.
func (l *Log) Mount(m *web.Mux) {
	web.RouteReply(m, "GET /apiv1/users/{user_id}/audit-log", access.Session(), l.handleList)
	web.RouteReply(m, "GET /apiv1/admin/audit-log", access.Admin(), l.handleAdminList)
}

type adminListInput struct {
	web.Page
	UserID int64  `query:"user_id" minimum:"0" doc:"The log of this user; 0, or absent: the entries that belong to no user, such as refused sign-ins of unknown accounts."`
	Action string `query:"action" maxLength:"100" pattern:"^[a-z0-9_.]*$" doc:"Only entries of exactly this action, for example session.sign_in_refused."`
	Since  int64  `query:"since" minimum:"0" doc:"Only entries at or after this time, Unix ms."`
	Until  int64  `query:"until" minimum:"0" doc:"Only entries before this time, Unix ms."`
}

func (l *Log) handleAdminList(ctx context.Context, in *adminListInput) (*web.Reply[[]AdminRecord], error) {
	if in.Until != 0 && in.Until <= in.Since {
		return nil, fault.Invalid("until", "must be later than since")
	}
	records, total, err := l.ListAll(ctx, in.UserID, Filter{Action: in.Action, Since: in.Since, Until: in.Until}, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(records, total, in.Page), nil
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
