package acmeaccounts

import (
	"context"
	"fmt"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/web"
)

const scope = "acme_accounts"

// Mount adds the routes of the area.
func (s *Service) Mount(m *web.Mux) {
	read := access.Session().OrKey(scope, "read")
	write := access.Session().OrKey(scope, "write")
	web.RouteReply(m, "GET /apiv1/users/{user_id}/acme-accounts", read, s.handleList)
	web.RouteReply(m, "POST /apiv1/users/{user_id}/acme-accounts", write, s.handleCreate, web.Large)
	web.Route(m, "GET /apiv1/users/{user_id}/acme-accounts/{acme_account_id}", read.On("acme_account_id"), s.handleGet)
	web.Route(m, "PUT /apiv1/users/{user_id}/acme-accounts/{acme_account_id}", write.On("acme_account_id"), s.handlePut, web.Large)
	web.RouteReply(m, "DELETE /apiv1/users/{user_id}/acme-accounts/{acme_account_id}", write.On("acme_account_id"), s.handleDelete)
}

type pageInput struct{ web.Page }

type idInput struct {
	ID int64 `path:"acme_account_id"`
}

type createInput struct{ Body Fields }

type putInput struct {
	ID   int64 `path:"acme_account_id"` // not embedded: huma passes over unexported types
	Body struct {
		Action string `json:"action,omitempty" enum:"update,register" doc:"update (default) sets the given members; register makes the account at its CA now."`
		Fields
	}
}

func (s *Service) handleList(ctx context.Context, in *pageInput) (*web.Reply[[]Account], error) {
	caller := access.From(ctx)
	all, ids := caller.All(scope, "read")
	if !all {
		accounts, err := s.named(ctx, caller.UserID, ids)
		if err != nil {
			return nil, err
		}
		return web.ListAll(accounts, in.Page), nil
	}
	accounts, total, err := s.list(ctx, caller.UserID, in.Page)
	if err != nil {
		return nil, err
	}
	return web.List(accounts, total, in.Page), nil
}

func (s *Service) handleCreate(ctx context.Context, in *createInput) (*web.Reply[Account], error) {
	caller := access.From(ctx)
	if all, _ := caller.All(scope, "write"); !all {
		return nil, fault.Forbidden("The API key is limited to named ACME accounts and cannot make new ones.")
	}
	a, err := s.create(ctx, caller.UserID, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Created(fmt.Sprintf("/apiv1/users/%d/acme-accounts/%d", a.UserID, a.ID), a), nil
}

func (s *Service) handleGet(ctx context.Context, in *idInput) (Account, error) {
	return s.Get(ctx, s.DB.Reader(), access.From(ctx).UserID, in.ID)
}

func (s *Service) handlePut(ctx context.Context, in *putInput) (Account, error) {
	if in.Body.Action == "register" {
		return s.register(ctx, access.From(ctx).UserID, in.ID)
	}
	return s.update(ctx, access.From(ctx).UserID, in.ID, &in.Body.Fields)
}

func (s *Service) handleDelete(ctx context.Context, in *idInput) (*web.Reply[web.None], error) {
	if err := s.remove(ctx, access.From(ctx).UserID, in.ID); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
