package administration

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/web"
)

type handler struct{ *Service }

// Mount adds the area's routes.
func (s *Service) Mount(m *web.Mux) {
	h := handler{s}
	web.RouteReply(m, "GET /apiv1/admin/users", access.Admin(), h.listUsers)
	web.RouteReply(m, "POST /apiv1/admin/users", access.Admin().Fresh(), h.createUser)
	web.Route(m, "GET /apiv1/admin/users/{user_id}", access.Admin(), h.getUser)
	web.Route(m, "PATCH /apiv1/admin/users/{user_id}", access.Admin().Fresh(), h.changeUser)
	web.RouteReply(m, "DELETE /apiv1/admin/users/{user_id}", access.Admin().Fresh(), h.deleteUser)
	web.RouteReply(m, "POST /apiv1/admin/users/{user_id}/cancel-deletion", access.Admin().Fresh(), h.cancelDeletion)
	web.RouteReply(m, "POST /apiv1/admin/users/{user_id}/sign-out", access.Admin().Fresh(), h.signOut)
	web.RouteReply(m, "POST /apiv1/admin/users/{user_id}/resend-activation-email", access.Admin().Fresh(), h.inviteAgain)
}

type listInput struct {
	web.Page
	Search string `query:"q" maxLength:"254" doc:"Only users whose e-mail address or name begins with this, in either case."`
	Role   string `query:"role" enum:"admin" doc:"Only users with this role."`
	Status string `query:"status" enum:"ACTIVE,INACTIVE,PENDING,DISABLED" doc:"Only users in this state."`
}

func (h handler) listUsers(ctx context.Context, in *listInput) (*web.Reply[[]identity.User], error) {
	f := identity.UserFilter{Search: in.Search, Admins: in.Role == identity.RoleAdmin, Status: identity.Status(in.Status)}
	users, total, err := h.ListUsers(ctx, f, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(users, total, in.Page), nil
}

type userInput struct {
	ID int64 `path:"user_id" doc:"The user's id."`
}

func (h handler) getUser(ctx context.Context, in *userInput) (Looked, error) {
	return h.Look(ctx, in.ID)
}

type createInput struct {
	Body struct {
		Email string   `json:"email" doc:"The e-mail address, to which a code is sent."`
		Name  string   `json:"name,omitempty" doc:"A user name, 3 to 64 of A-Z a-z 0-9 . _ -"`
		Roles []string `json:"roles,omitempty" maxItems:"1" enum:"admin" doc:"admin, or none."`
	}
}

func (h handler) createUser(ctx context.Context, in *createInput) (*web.Reply[Looked], error) {
	user, err := h.Create(ctx, identity.NewUser{Email: in.Body.Email, Name: in.Body.Name, Admin: len(in.Body.Roles) > 0})
	if err != nil {
		return nil, err
	}
	return web.Created(fmt.Sprintf("/apiv1/admin/users/%d", user.ID), user), nil
}

type changeInput struct {
	ID   int64 `path:"user_id" doc:"The user's id."`
	Body struct {
		Roles  *[]string `json:"roles,omitempty" maxItems:"1" enum:"admin" doc:"The roles from now on: admin, or none."`
		Status string    `json:"status,omitempty" enum:"ACTIVE,DISABLED" doc:"DISABLED, or ACTIVE again; ACTIVE also lets in who is PENDING."`
		Reason string    `json:"reason,omitempty" maxLength:"500" doc:"Is recorded and told the user."`
	}
}

func (h handler) changeUser(ctx context.Context, in *changeInput) (Looked, error) {
	c := identity.UserChange{Reason: in.Body.Reason}
	if in.Body.Roles != nil {
		c.Admin = new(len(*in.Body.Roles) > 0)
	}
	if in.Body.Status != "" {
		c.Disabled = new(in.Body.Status == string(identity.StatusDisabled))
	}
	return h.Change(ctx, in.ID, c)
}

type reasonInput struct {
	ID   int64 `path:"user_id" doc:"The user's id."`
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"Is recorded and told the user."`
	}
}

func (in *reasonInput) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason
}

func (h handler) signOut(ctx context.Context, in *reasonInput) (*web.Reply[web.None], error) {
	if err := h.Identity.SignOutUser(ctx, in.ID, in.reason()); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

func (h handler) inviteAgain(ctx context.Context, in *userInput) (*web.Reply[web.None], error) {
	if err := h.Identity.InviteAgain(ctx, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

type deleteInput struct {
	ID     int64  `path:"user_id" doc:"The user's id."`
	Reason string `query:"reason" maxLength:"500" doc:"Is recorded and told the user."`
}

func (h handler) deleteUser(ctx context.Context, in *deleteInput) (*web.Reply[web.None], error) {
	if err := h.Delete(ctx, in.ID, in.Reason); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

func (h handler) cancelDeletion(ctx context.Context, in *userInput) (*web.Reply[web.None], error) {
	if err := h.CancelDeletion(ctx, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
